-- A second wall behind the conditions of the statements: a transaction that says whose it is (`callgate.tenant`) is shown nobody else's rows and
-- writes none, whatever its statements say. It binds every role but the owner of the tables and superusers: a gateway has a role of its own
-- (`callgate migrate --grant`). What serves several tenants at once (flushes, recovery, the sealer) says nothing and is not bound.
-- A table that is added later with a `tenant` needs the same.
do $do$
declare
  of text;
begin
  for of in
    select c.table_name from information_schema.columns c
    join information_schema.tables t on t.table_schema = c.table_schema and t.table_name = c.table_name and t.table_type = 'BASE TABLE'
    where c.table_schema = current_schema() and c.column_name = 'tenant'
  loop
    execute format('alter table %I enable row level security', of);
    execute format($policy$create policy tenant_wall on %I using (coalesce(current_setting('callgate.tenant', true), '') in ('', tenant))$policy$, of);
  end loop;
end
$do$;
