// graphile-worker as a worker process of the benchmark. It exchanges JSON lines like the Python workers; see worker_side.py.
"use strict";
const readline = require("node:readline");
const { createRequire } = require("node:module");

const [modules, what, url, ...rest] = process.argv.slice(2);
const required = createRequire(modules + "/");
process.env.NO_LOG_SUCCESS = "1";
const { run, runMigrations, makeWorkerUtils, Logger } = required("graphile-worker");
const { Pool } = required("pg");

const logger = new Logger(() => (level, message) => level === "error" && console.error(message));
const CONCURRENT = 24;
const WARM_UP = 5000;
const LOCAL_QUEUE = what === "work" ? Number(rest[0]) : 500;
const now = () => Number(process.hrtime.bigint()) / 1e9;
const say = (name, fields) => process.stdout.write(JSON.stringify({ name, ...fields }) + "\n");

const awaited = [];
const received = [];
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  const waiting = awaited.findIndex(([name]) => name === message.name);
  if (waiting >= 0) awaited.splice(waiting, 1)[0][1](message);
  else received.push(message);
});
const receive = (name) =>
  new Promise((resolve) => {
    const there = received.findIndex((message) => message.name === name);
    if (there >= 0) resolve(received.splice(there, 1)[0]);
    else awaited.push([name, resolve]);
  });

const preset = (schema) => ({
  worker: {
    schema,
    concurrentJobs: CONCURRENT,
    maxPoolSize: 10,
    localQueue: { size: LOCAL_QUEUE },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
});

async function fill(schema, jobs) {
  const utils = await makeWorkerUtils({ connectionString: url, preset: preset(schema), logger });
  for (let first = 0; first < jobs; first += 5000) {
    const specs = [];
    for (let number = first; number < Math.min(first + 5000, jobs); number++)
      specs.push({ identifier: "noop", payload: { number } });
    await utils.addJobs(specs);
  }
  await utils.release();
}

// The script creates the pool itself in order to observe when the statements that complete jobs have returned.
function watched(onLook, onComplete) {
  const pool = new Pool({ connectionString: url, max: 10 });
  pool.on("error", console.error);
  pool.on("connect", (client) => {
    client.on("error", console.error);
    const query = client.query;
    client.query = function (statement, ...more) {
      const name = statement && statement.name;
      const result = query.call(client, statement, ...more);
      if (name && name.startsWith("get_job")) onLook();
      if (name && name.startsWith("complete_job")) {
        const ids = statement.values[0];
        result.then(() => onComplete(Array.isArray(ids) ? ids.length : 1));
      }
      return result;
    };
  });
  return pool;
}

const taskList = { noop: async () => {} };
const start = (schema, pgPool) =>
  run({ pgPool, taskList, preset: preset(schema), logger, noHandleSignals: true, parsedCronItems: [] });

async function warmUp(schema) {
  let left = WARM_UP;
  let done;
  const finished = new Promise((resolve) => (done = resolve));
  const pool = watched(
    () => {},
    (count) => (left -= count) <= 0 && done(),
  );
  const runner = await start(schema, pool);
  await finished;
  await runner.stop();
  await pool.end();
}

async function work() {
  // Warm up the JIT compiler, which would otherwise take the first second.
  await warmUp(rest[1]);
  let began = false;
  const pool = watched(
    () => {
      if (!began) say("began", { at: now() });
      began = true;
    },
    (count) => say("acked", { jobs: count, at: now() }),
  );
  await Promise.all(Array.from({ length: 4 }, () => pool.query("select 1")));
  say("barrier", { barrier: "start", step: "arrived" });
  const go = await receive("barrier");
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, (go.at - now()) * 1000)));
  const runner = await start("graphile_worker", pool);
  await receive("stop");
  await runner.stop();
  await pool.end();
  process.exit(0);
}

const migrate = (schema) => runMigrations({ connectionString: url, preset: preset(schema), logger });
const ways = {
  // A schema for the warm-up of each worker, and the one that is measured.
  prepare: async () => {
    for (const schema of rest) {
      await migrate(schema);
      await fill(schema, WARM_UP);
    }
    await migrate("graphile_worker");
  },
  fill: () => fill("graphile_worker", Number(rest[0])),
  work,
};
ways[what]().catch((error) => {
  console.error(error);
  process.exit(1);
});
process.stdout.on("error", () => process.exit(1));
if (what !== "work") process.stdin.destroy();
