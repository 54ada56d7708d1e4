// Measures no-op steps in LangGraph JS, each made durable, for `bench/run.sh -only langgraph`.
//
//     npm ci && node steps.mjs functional|graph chain|fan-out STEPS TIMES full|default DIRECTORY
//
// prints one line of JSON. Only invoke is timed, after a warm-up with a chain of at most 100 steps; imports, opening and
// building are not. Every repetition has its own database in DIRECTORY.
import { existsSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Annotation, END, START, StateGraph, entrypoint, task } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";

// layers maps a shape to the widths of its layers. Nodes depend on all nodes of the layer before. Package bench has the
// same shapes in Go.
const layers = {
  chain: (n) => Array(n).fill(1),
  "fan-out": (n) => [1, n - 2, 1],
};

const step = task("step", async () => 1);

function functional(widths, checkpointer) {
  return entrypoint({ name: "steps", checkpointer }, async () => {
    let done = 0;
    for (const width of widths) {
      const results = width === 1 ? [await step()] : await Promise.all(Array.from({ length: width }, () => step()));
      done += results.reduce((a, b) => a + b, 0);
    }
    return { done };
  });
}

function graph(widths, checkpointer) {
  const State = Annotation.Root({ done: Annotation({ reducer: (a, b) => a + b, default: () => 0 }) });
  const builder = new StateGraph(State);
  let before = [START];
  let count = 0;
  for (const width of widths) {
    const layer = Array.from({ length: width }, () => `s${count++}`);
    for (const name of layer) {
      builder.addNode(name, async () => ({ done: 1 }));
      // A list is a join: it waits for all of its nodes.
      builder.addEdge(before.length === 1 ? before[0] : before, name);
    }
    before = layer;
  }
  builder.addEdge(before[0], END);
  return builder.compile({ checkpointer });
}

function open(file, synchronous) {
  const db = new Database(file);
  const saver = new SqliteSaver(db);
  saver.setup(); // sets WAL; better-sqlite3 then defaults to synchronous=NORMAL
  if (synchronous === "full") db.pragma("synchronous = FULL");
  return { db, saver };
}

async function once(api, widths, steps, synchronous, file) {
  const { db, saver } = open(file, synchronous);
  const app = (api === "graph" ? graph : functional)(widths, saver);
  // "sync": each superstep waits for the previous checkpoint.
  const config = { configurable: { thread_id: "t" }, durability: "sync", recursionLimit: steps + 10 };
  const began = performance.now();
  const { done } = await app.invoke({ done: 0 }, config);
  const seconds = (performance.now() - began) / 1e3;
  if (done !== steps) throw new Error(`${done} of ${steps} steps were done`);
  const rows = {
    checkpoints: db.prepare("select count(*) from checkpoints").pluck().get(),
    writes: db.prepare("select count(distinct task_id) from writes").pluck().get(),
  };
  const pragmas = {
    synchronous: db.pragma("synchronous", { simple: true }),
    journal: db.pragma("journal_mode", { simple: true }),
  };
  db.close();
  return { seconds, ...rows, ...pragmas };
}

const version = (name) => {
  for (const dir of createRequire(import.meta.url).resolve.paths(name)) {
    const file = join(dir, name, "package.json");
    if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8")).version;
  }
};

const [api, shape, stepsText, timesText, synchronous, directory] = process.argv.slice(2);
const steps = Number(stepsText);
const results = [];
for (let i = -1; i < Number(timesText); i++) {
  const file = join(directory, `langgraph-${process.pid}-${i}.sqlite`);
  if (i < 0) {
    const few = Math.min(100, steps);
    await once(api, layers.chain(few), few, synchronous, file); // warm-up, not counted
  } else {
    results.push(await once(api, layers[shape](steps), steps, synchronous, file));
  }
  for (const suffix of ["", "-wal", "-shm"]) rmSync(file + suffix, { force: true });
}
const { seconds, ...rest } = results.at(-1);
console.log(JSON.stringify({
  api, shape, steps, ...rest, seconds: results.reduce((sum, r) => sum + r.seconds, 0) / results.length,
  memory: process.resourceUsage().maxRSS * 1024,
  versions: {
    node: process.versions.node, langgraph: version("@langchain/langgraph"),
    checkpointer: version("@langchain/langgraph-checkpoint-sqlite"), "better-sqlite3": version("better-sqlite3"),
  },
}));
