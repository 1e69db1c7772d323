-- The role that gateways connect as, which owns nothing: `callgate migrate --grant callgate_gateway` gives it what calls need. The Postgres image runs
-- this once, when its volume is empty; with a volume from before, run it yourself (docs/operations.md).
\getenv password GATEWAY_DATABASE_PASSWORD
create role callgate_gateway login password :'password';
