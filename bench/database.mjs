/** Databases on the server of a run, and questions to them. */
import pg from 'pg';

export async function createDatabase({ postgres }, name) {
  await ask(postgres.url, `create database ${name}`);
  return databaseAt({ postgres }, name);
}

export function databaseAt({ postgres }, name) {
  const url = new URL(postgres.url);
  url.pathname = `/${name}`;
  return url.href;
}

/** @returns the rows of one statement. */
export async function ask(url, text) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}
