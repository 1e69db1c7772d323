/**
 * The built gateway with a fuse between two of its rooms: at the point named by CRASH_AT it kills, or stops, itself by CRASH_WITH.
 * Points count writes of the upstream and commits of the ledger only from the moment at which it serves.
 */
import { loadConfig } from '../../dist/src/config/index.js';
import { startGateway } from '../../dist/src/main.js';

const { CRASH_AT: point, CRASH_WITH: signal = 'SIGKILL' } = process.env;
const loaded = loadConfig({ env: process.env });
if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems));

let burnt = false;
const at = (here) => {
  if (here !== point || burnt) return;
  burnt = true;
  process.kill(process.pid, signal);
};
/** A signal to oneself arrives at the next turn of the loop at the latest: nothing may happen in between. */
const passed = () => new Promise((resolve) => setTimeout(resolve, signal === 'SIGKILL' ? 60_000 : 50));
const fuse = async (here) => {
  if (here !== point || burnt) return;
  at(here);
  await passed();
};

const waitsToBeSent = new Set();
const gateway = await startGateway(loaded.config, {
  ledger: (ledger) => ({
    ...ledger,
    async reserve(intent) {
      await fuse('before_reserve');
      const reservation = await ledger.reserve(intent);
      await fuse('after_reserve');
      return reservation;
    },
    async approve(approve) {
      const approved = await ledger.approve(approve);
      if (approved?.enough) await fuse('after_approval');
      return approved;
    },
    async dispatch(dispatch) {
      await fuse('before_dispatch');
      const given = await ledger.dispatch(dispatch);
      await fuse('after_dispatch');
      return given;
    },
    async transition(transition) {
      if (transition.settle) await fuse('before_settle');
      if (transition.send && waitsToBeSent.has(transition.operationId)) await fuse('before_decided_send');
      const moved = await ledger.transition(transition);
      if (transition.to === 'unknown') await fuse('after_unknown');
      if (transition.send) await fuse('after_resend_intent');
      if (transition.settle) await fuse('after_settle');
      if (transition.decided) {
        waitsToBeSent.add(transition.operationId);
        await fuse('after_decision');
      }
      return moved;
    },
  }),
  upstream: (upstream) => ({
    async send(request, options) {
      const write = request.method !== 'GET';
      const readBack = request.url.includes('/credits?');
      const exchange = await upstream.send(request, options);
      if (write) await fuse('after_exchange');
      if (readBack) await fuse('after_first_readback');
      return exchange;
    },
    close: () => upstream.close(),
  }),
});
console.error(`callgate is serving agents at ${gateway.agentUrl} and people at ${gateway.controlUrl}`);
