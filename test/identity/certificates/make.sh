#!/bin/sh
# The certificates of the test of client certificates: `sh make.sh` in this folder. Valid from 2020 for a hundred years, whatever the clock says.
set -eu
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cat > "$work/ca.cnf" <<END
[ca]
default_ca = here
[here]
database = $work/index
new_certs_dir = $work
default_md = sha256
policy = any
unique_subject = no
rand_serial = yes
[any]
organizationName = optional
commonName = supplied
[authority]
basicConstraints = critical,CA:TRUE
END
: > "$work/index"

# name, subject, extension file and section, issuer's name (its own for an authority)
issue() {
  openssl ecparam -name prime256v1 -genkey -noout -out "$work/$1.key"
  openssl req -new -key "$work/$1.key" -subj "$2" -out "$work/$1.csr"
  if [ "$1" = "$5" ]; then by="-selfsign -keyfile $work/$1.key"; else by="-cert $work/$5.pem -keyfile $work/$5.key"; fi
  openssl ca -batch -notext -config "$work/ca.cnf" $by -in "$work/$1.csr" -extfile "$3" -extensions "$4" \
    -startdate 20200101000000Z -enddate "${6:-21200101000000Z}" -out "$work/$1.pem"
}
leaf() { # name, issuer, subject, extended use, alternative names, one a line; not after
  printf '[leaf]\nbasicConstraints = CA:FALSE\nextendedKeyUsage = %s\nsubjectAltName = @names\n[names]\n%s\n' "$4" "$5" > "$work/$1.ext"
  issue "$1" "$3" "$work/$1.ext" leaf "$2" ${6:-}
  cat "$work/$1.key" "$work/$1.pem" > "$1.pem"
}
for name in house stranger; do
  issue "$name" "/CN=$name" "$work/ca.cnf" authority "$name"
  cp "$work/$name.pem" "$name.pem"
done
leaf server house /CN=localhost serverAuth 'DNS.1 = localhost
IP.1 = 127.0.0.1'
leaf agent house /O=Acme/CN=refund-agent clientAuth 'URI.1 = spiffe://acme.test/agent/refund
DNS.1 = refund.acme.test'
leaf auditor house /O=Acme/CN=auditor clientAuth 'email.1 = auditor@acme.test'
leaf nobody house /O=Acme/CN=nobody clientAuth 'URI.1 = spiffe://acme.test/agent/nobody'
leaf both house /O=Acme/CN=both clientAuth 'URI.1 = spiffe://acme.test/agent/refund
email.1 = auditor@acme.test'
# a name that reads like two, when commas separate names
leaf tricky house /O=Acme/CN=tricky clientAuth 'URI.1 = spiffe://acme.test/x, DNS:refund.acme.test'
leaf forged stranger /O=Acme/CN=refund-agent clientAuth 'URI.1 = spiffe://acme.test/agent/refund'
leaf expired house /O=Acme/CN=refund-agent clientAuth 'URI.1 = spiffe://acme.test/agent/refund' 20210101000000Z
