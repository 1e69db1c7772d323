#!/bin/sh
# Random secrets for docker-compose.yml: sh deploy/make-env.sh > .env
# For a machine of your own. In production they come from a secret store, and from `secrets.key_pepper_file` and the like.
set -eu
umask 077
secret() { head -c 36 /dev/urandom | base64 | tr -d '\n=' | tr '+/' '-_'; }
# 32 bytes in base64url, no more and no less: the seed of an Ed25519 key
seed() { head -c 32 /dev/urandom | base64 | tr -d '\n=' | tr '+/' '-_'; }
cat <<END
# Made by deploy/make-env.sh on $(date -u +%Y-%m-%d), for this machine alone. Whoever has it can open the ledger: never commit it.
POSTGRES_PASSWORD=$(secret)
GATEWAY_DATABASE_PASSWORD=$(secret)
CALLGATE_SECRETS_KEY_PEPPER=$(secret)
CALLGATE_SECRETS_SEAL_KEY=$(secret)
CALLGATE_SECRETS_SIGNING_KEYS=$(seed)
RETAIL_TOKEN=$(secret)
RETAIL_WEBHOOK_SECRET=whsec_$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
END
