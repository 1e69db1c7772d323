# Callgate, and the example service as another command of the same image.
#   build         compiles, with the development packages
#   dependencies  what runs, and nothing else
#   the last      what is shipped: no compiler, no tests, no package manager in use

FROM node:20-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --include=dev --omit=optional --ignore-scripts
COPY tsconfig.json ./
COPY src ./src
COPY examples ./examples
RUN node node_modules/typescript/bin/tsc -p . && rm -f dist/.tsbuildinfo

FROM node:20-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Without the optional packages: the embedded Postgres is for development, and a server of its own runs in production.
RUN npm ci --omit=dev --omit=optional --ignore-scripts

FROM node:20-bookworm-slim
WORKDIR /app
# `production` refuses missing, short and guessable secrets; `callgate serve` says which.
ENV NODE_ENV=production \
    CALLGATE_AGENT_HOST=0.0.0.0 \
    CALLGATE_CONTROL_HOST=0.0.0.0 \
    CALLGATE_CONTRACTS_FOLDER=/contracts
COPY --from=dependencies /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY package.json LICENSE openapi.yaml ./
COPY bin ./bin
COPY schemas ./schemas
COPY migrations ./migrations
# The files belong to root and the process to `node` (1000): it can change none of them, and needs to write nothing.
USER 1000:1000
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.CALLGATE_CONTROL_PORT || 9090}/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "bin/callgate.mjs"]
CMD ["serve"]
