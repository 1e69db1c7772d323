/** A contract document after its shape was checked against schemas/contract.schema.json. docs/contracts.md explains each field. */
import type { Json, JsonObject, NextAction, Outcome } from '../model.js';

/** A text is an expression; any other value stands for itself. */
export type ValueSource = Json;

export interface ContractDocument {
  callgate: 1;
  service: string;
  upstream: UpstreamSource;
  entities?: Record<string, EntitySource>;
  tools: Record<string, ToolSource>;
  policies?: string | string[];
}

export interface UpstreamSource {
  base_url: string;
  auth?: { header: string; value_from: string; prefix?: string };
  limits?: { concurrency?: number; connect_timeout?: string; deadline?: string };
  error_body?: JsonObject;
  callbacks?: CallbacksSource;
}

/** Where the secrets are by which the service signs what it tells by itself. */
export interface CallbacksSource {
  secret_from: string;
  /** While the secret is being replaced: both hold. */
  previous_secret_from?: string;
  tolerance?: string;
}

export interface CallbackSource {
  operation: string;
  committed: string;
  result?: string;
  rejected?: { when: string; code?: string; next: NextAction; message?: string }[];
}

export interface ObservationSource {
  tool: string;
  args: Record<string, ValueSource>;
  version?: string;
  max_age: string;
  for_each?: { in: string; as: string; max?: number };
}

export interface EntitySource {
  id: string;
  /** Need not be there where the gateway keeps the state. */
  observe?: ObservationSource;
  /** `gateway`, or an expression over the observation. */
  state?: string;
  states?: string[];
  initial?: string[];
  external?: string[];
  transitions?: Record<string, Record<string, string>>;
}

export function keptByGateway({ state }: EntitySource): boolean {
  return state === 'gateway';
}

/** The tool acts on the entity, or touches it. */
export function acts({ entity, touches }: ToolSource, name: string): boolean {
  return entity === name || (touches ?? []).includes(name);
}

export interface PredicateSource {
  id: string;
  check: string;
  otherwise: { code: string; next?: NextAction; message?: string };
}

export interface ErrorSource {
  when: string;
  outcome: Outcome;
  class?: 'version_conflict' | 'rate_limited' | 'not_found';
  code?: string;
  next?: NextAction;
  message?: string;
}

export interface ReadbackSource {
  tool: string;
  args: Record<string, ValueSource>;
  committed: string;
  absent: string;
  result?: string;
  settle_after?: string;
  lag?: string;
}

export interface HttpSource {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: ValueSource;
}

export interface ApprovalSource {
  when: string;
  by: 'client' | 'application' | 'reviewer';
  approvals?: number;
  expires?: string;
  summary?: string;
}

export interface ToolSource {
  version: string;
  effect: 'none' | 'write' | 'irreversible';
  entity?: string;
  touches?: string[];
  purpose: string;
  use_when?: string;
  not_when?: string;
  examples?: { args: JsonObject; why?: string }[];
  counterexamples?: { args: JsonObject; why: string }[];
  args: JsonObject;
  result: JsonObject;
  coerce?: 'none' | 'lossless';
  bind?: Record<string, ValueSource>;
  authority?: string[];
  expect?: 'observed' | 'seen';
  observe?: Record<string, ObservationSource>;
  let?: Record<string, string>;
  preconditions?: PredicateSource[];
  identity?: { scope?: 'intent' | 'call' | 'session' | 'tenant'; arguments?: string[]; window?: string };
  repeatable?: boolean;
  http: HttpSource;
  idempotency?: { honoured: boolean; window?: string };
  effects?: { creates?: string; changes?: string[]; never?: string[] };
  error_body?: JsonObject;
  errors?: ErrorSource[];
  not_found?: string;
  readback?: ReadbackSource;
  verify?: 'always' | 'on_ambiguity';
  on_unknown?: 'reconcile' | 'review';
  retry?: { attempts?: number; elapsed?: string };
  approval?: ApprovalSource[];
  async?: { accepted: string; body?: JsonObject; poll: 'readback'; deadline: string; callback?: CallbackSource };
  compensate?: { tool: string; args: Record<string, ValueSource> };
  redact?: string[];
  public?: string[];
  untrusted?: boolean;
  partial?: { items: string; key: string; failed: string; unknown?: string; retry?: string };
  durability?: 'strict' | 'relaxed';
}
