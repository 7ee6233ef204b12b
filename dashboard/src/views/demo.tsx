import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../../../src/base/inference/errors.ts";
import type {
  DemoPolicy,
  DemoPolicyFigures,
  DemoState,
  PolicyOrder,
  ServerOrder,
  TrafficOrder,
  WaveOrder,
} from "../../../src/wires/admin/feed/demo.ts";
import { order, useAsked } from "../feed/ask.ts";
import { useStore } from "../feed/use-store.ts";
import { count, figure, percent, span } from "../format.ts";
import { Badge, Empty, Panel, Segments } from "../parts/basics.tsx";
import { FigurePlot } from "../plots/figure-plot.tsx";
import { linkTo } from "../router.ts";
import { Events } from "./overview.tsx";

const EVERY_MS = 1_000;
/** Milliseconds after the last move of the slider until it counts. */
const SETTLE_MS = 250;
/** Messages of one wave. */
const WAVE = 120;
const WINDOW = 180;

const POLICIES: Readonly<
  Record<DemoPolicy, { readonly text: string; readonly about: string; readonly colour: number }>
> = {
  "round-robin": { text: "Round robin", about: "each server in turn, with no regard to cache and load", colour: 1 },
  sluice: { text: "Sluice", about: "by prefix cache, queues, KV cache and requests in flight", colour: 0 },
};
const CHOICES = (Object.keys(POLICIES) as DemoPolicy[]).map((name) => [name, POLICIES[name].text] as const);

/** The orders that the demo takes, by the end of their routes. */
interface Orders {
  readonly server: ServerOrder;
  readonly traffic: TrafficOrder;
  readonly policy: PolicyOrder;
  readonly wave: WaveOrder;
}

/** Gives an order. */
type Give = <What extends keyof Orders>(what: What, body: Orders[What]) => void;

export function DemoView() {
  const store = useStore();
  const asked = useAsked<DemoState>("demo/state", EVERY_MS);
  const [answered, setAnswered] = useState<DemoState | undefined>(undefined);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const state = [asked.data, answered].filter((one) => one !== undefined).sort((a, b) => b.at - a.at)[0];
  const give: Give = (what, body) => {
    setProblem(undefined);
    // The answer is the state afterwards.
    order<DemoState>(`demo/${what}`, body).then(setAnswered, (error: unknown) => setProblem(messageOf(error)));
  };
  if (state === undefined)
    return (
      <Empty what={asked.problem === undefined ? "The demo starts" : "The demo does not answer"}>{asked.problem}</Empty>
    );
  const isOff = !state.ready;
  return (
    <>
      <div class="page-head">
        <h1>Demo</h1>
        <span class="soft">
          simulated model servers with prefix caches, real traffic, and the gateway that routes it
        </span>
        <div class="tools">
          <Segments<DemoPolicy>
            label="Current policy"
            options={CHOICES}
            value={state.policy}
            onChange={(policy) => give("policy", { policy })}
          />
        </div>
      </div>
      {isOff && <p class="note">The controls have no effect now: {state.because}</p>}
      {problem !== undefined && (
        <p class="bad" role="alert">
          {problem}
        </p>
      )}
      <div class="live-data">
        <Comparison state={state} />
        <div class="grid">
          <FigurePlot
            {...{ store, window: WINDOW, say: span }}
            title="TTFT"
            lines={[
              ["ttft.p50", "p50", 0],
              ["ttft.p90", "p90", 4],
            ]}
          />
          <FigurePlot
            {...{ store, window: WINDOW, say: percent }}
            title="Prefix hit rate"
            top={1}
            lines={[
              ["prefix.predicted", "predicted", 0],
              ["prefix.reported", "reported", 4],
            ]}
          />
          <FigurePlot
            {...{ store, window: WINDOW, say: figure }}
            title="Output tokens"
            lines={[["tokens.output", "per second", 2]]}
          />
        </div>
        <div class="grid two">
          <Servers state={state} isOff={isOff} give={give} />
          <Load state={state} isOff={isOff} give={give} />
        </div>
        <div class="grid two">
          <Wave state={state} isOff={isOff} give={give} />
          <Events events={store.events} />
        </div>
        <p class="soft">
          Why did a request go to its server? <a href={linkTo("decisions")}>The decisions</a> show it for each request.
        </p>
      </div>
    </>
  );
}

interface ControlProps {
  readonly state: DemoState;
  readonly isOff: boolean;
  readonly give: Give;
}

interface CompareRow {
  readonly name: string;
  readonly of: (figures: DemoPolicyFigures) => number | null;
  readonly say: (value: number | null) => string;
  readonly better: "less" | "more";
}

const COMPARED: readonly CompareRow[] = [
  { name: "TTFT p50", of: ({ ttftMs }) => ttftMs.p50, say: span, better: "less" },
  { name: "TTFT p90", of: ({ ttftMs }) => ttftMs.p90, say: span, better: "less" },
  { name: "Prefix cache hits", of: ({ cacheHitRate }) => cacheHitRate, say: percent, better: "more" },
  { name: "Output tokens/s", of: ({ outputTokensPerSecond }) => outputTokensPerSecond, say: figure, better: "more" },
  { name: "Failed requests", of: ({ failed }) => failed, say: count, better: "less" },
];

/** Both policies side by side, and by how much the better one is ahead. */
function Comparison({ state }: { state: DemoState }) {
  const [one, other] = (Object.keys(POLICIES) as DemoPolicy[]).map((name) =>
    state.policies.find(({ policy }) => policy === name),
  );
  const sides = [one, other] as const;
  return (
    <Panel
      title="Round robin and Sluice, side by side"
      note="each over its latest time as the current policy, at most 60 s"
    >
      <div class="scroll">
        <table class="compare">
          <thead>
            <tr>
              <th scope="col">figure</th>
              {CHOICES.map(([name, text], at) => (
                <th scope="col" class="n" key={name}>
                  <span class={`swatch square c${POLICIES[name].colour}`} aria-hidden="true" /> {text}{" "}
                  {state.policy === name && <Badge tone="ours">routes now</Badge>}
                  <span class="about">
                    {sides[at] === undefined || sides[at].requests === 0
                      ? POLICIES[name].about
                      : `${count(sides[at].requests)} requests in ${span(sides[at].seconds * 1000)}`}
                  </span>
                </th>
              ))}
              <th scope="col">Sluice is</th>
            </tr>
          </thead>
          <tbody>
            {COMPARED.map(({ name, of, say, better }) => {
              const [first, second] = sides.map((side) =>
                side === undefined || side.requests === 0 ? null : of(side),
              );
              const most = Math.max(first ?? 0, second ?? 0);
              return (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  {[first, second].map((value, at) => (
                    <td class="n" key={CHOICES[at]?.[0]}>
                      <span class="compare-cell">
                        <span class="compare-bar" aria-hidden="true">
                          <i
                            class={`c${POLICIES[CHOICES[at]![0]].colour}`}
                            style={{ width: `${most > 0 && value != null ? (value / most) * 100 : 0}%` }}
                          />
                        </span>
                        <b>{say(value ?? null)}</b>
                      </span>
                    </td>
                  ))}
                  <td>{aheadText(first ?? null, second ?? null, better)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

/** The advantage of the second figure in words. */
export function aheadText(first: number | null, second: number | null, better: "less" | "more"): string {
  if (first === null || second === null) return "not compared yet";
  if (first === second) return "equal";
  const [low, high] = [Math.min(first, second), Math.max(first, second)];
  const isAhead = better === "less" ? second < first : second > first;
  const word = isAhead ? "better" : "behind";
  if (low <= 0) return word;
  const factor = high / low;
  if (factor < 1.02) return "equal";
  return `${factor >= 2 ? `${factor.toFixed(1)}×` : `${Math.round((factor - 1) * 100)} %`} ${word}`;
}

function Servers({ state, isOff, give }: ControlProps) {
  const running = state.servers.filter(({ state: is }) => is === "running").length;
  return (
    <Panel title="Model servers" note="Kill sends SIGKILL: the process and its requests end at once">
      <ul class="servers">
        {state.servers.map(({ name, endpoint, state: is, pid }) => (
          <li key={name}>
            <a href={linkTo("endpoints", endpoint)}>{name}</a>
            <Badge tone={is === "running" ? "good" : "bad"}>{is}</Badge>
            <span class="soft">{pid === null ? "" : `process ${pid}`}</span>
            <button
              type="button"
              class={is === "running" ? "button danger" : "button"}
              disabled={isOff || (is === "running" && running === 1)}
              onClick={() => give("server", { name, order: is === "running" ? "kill" : "start" })}
            >
              {is === "running" ? "Kill" : "Start"} <span class="hidden-text">{name}</span>
            </button>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Load({ state: { traffic }, isOff, give }: ControlProps) {
  const [moved, setMoved] = useState<number | undefined>(undefined);
  useEffect(() => {
    if (moved === undefined) return undefined;
    const timer = setTimeout(() => {
      give("traffic", { requestsPerSecond: moved });
      setMoved(undefined);
    }, SETTLE_MS);
    return () => clearTimeout(timer);
  }, [moved]);
  const value = moved ?? traffic.requestsPerSecond;
  return (
    <Panel title="Traffic" padded>
      <label class="slider">
        <span>
          <b>{figure(value)}</b> requests/s
        </span>
        <input
          type="range"
          aria-label="Requests per second"
          min={traffic.least}
          max={traffic.most}
          step={traffic.most - traffic.least > 20 ? 1 : 0.5}
          value={value}
          disabled={isOff}
          onInput={(event) => setMoved(event.currentTarget.valueAsNumber)}
        />
        <span class="ends soft">
          <span>{figure(traffic.least)}</span>
          <span>{figure(traffic.most)}</span>
        </span>
      </label>
    </Panel>
  );
}

function Wave({ state: { wave }, isOff, give }: ControlProps) {
  const all = wave.waiting + wave.inFlight + wave.done;
  return (
    <Panel
      title="Wave of queued requests"
      note="the Async Processor sends them into the capacity that live traffic leaves"
      padded
    >
      {wave.state === "none" ? (
        <p class="soft">
          {count(WAVE)} messages go into the queue at once. Watch the gate, and the TTFT of live traffic.
        </p>
      ) : (
        <>
          <div class="strip tall" role="img" aria-label={`${wave.done} of ${all} messages ended`}>
            <i class="c2" style={{ width: `${all > 0 ? (wave.done / all) * 100 : 0}%` }} />
            <i class="c0" style={{ width: `${all > 0 ? (wave.inFlight / all) * 100 : 0}%` }} />
          </div>
          <p>
            <b>{count(wave.done)}</b> ended, <b>{count(wave.inFlight)}</b> in flight, <b>{count(wave.waiting)}</b>{" "}
            waiting
            {wave.etaSeconds !== null && wave.state === "running" && `, about ${span(wave.etaSeconds * 1000)} left`}
          </p>
          <p class="soft">
            <Badge tone={wave.gate === "open" ? "good" : "warn"}>gate {wave.gate}</Badge> {wave.because}
          </p>
        </>
      )}
      <p>
        <button
          type="button"
          class="button"
          disabled={isOff || wave.state === "running"}
          onClick={() => give("wave", { count: WAVE })}
        >
          {wave.state === "none"
            ? "Send a wave"
            : wave.state === "running"
              ? "The wave is running"
              : "Send another wave"}
        </button>
      </p>
    </Panel>
  );
}
