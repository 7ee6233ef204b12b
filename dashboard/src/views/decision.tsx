import type { ComponentType } from "preact";
import { useState } from "preact/hooks";
import type { DecisionDetail, ExplanationJson } from "../../../src/wires/admin/feed/decisions.ts";
import { Candidates } from "../decision/candidates.tsx";
import { JourneyPanel } from "../decision/journey.tsx";
import { useAsked } from "../feed/ask.ts";
import { absolute, bytes, count, counted } from "../format.ts";
import { Badge, Empty, Facts, Panel } from "../parts/basics.tsx";
import { linkTo } from "../router.ts";
import type { WhatIfProps } from "../what-if/what-if.tsx";
import { OutcomeBadge } from "./decisions.tsx";

/** A request that runs is asked for again until it ends. */
const RUNNING_EVERY_MS = 1_000;

/** One decision: its reason, the way of the request, who was left out and by whom, and what else could have been. */
export function DecisionView({ id }: { id: string }) {
  const path = `debug/feed/decision?id=${encodeURIComponent(id)}`;
  const [isRunning, setIsRunning] = useState(true);
  const { data, problem } = useAsked<DecisionDetail>(path, isRunning ? RUNNING_EVERY_MS : undefined);
  const runs = data === undefined ? problem === undefined : data.row.journey.outcome === "running";
  if (runs !== isRunning) setIsRunning(runs);
  const row = data?.row;
  return (
    <>
      <div class="page-head">
        <nav class="crumbs" aria-label="Path">
          <a href={linkTo("decisions")}>Decisions</a> <span aria-hidden="true">/</span>
        </nav>
        <h1 class="mono">{row?.requestId ?? id}</h1>
        {row !== undefined && <OutcomeBadge {...row} />}
        {row !== undefined && (
          <div class="tools">
            <a
              class="button"
              href={linkTo("decisions", row.requestId)}
              title="a link that names the request, to keep or to send"
            >
              Permalink
            </a>
          </div>
        )}
      </div>
      {data === undefined ? (
        <Empty what={problem === undefined ? "Loading" : "This decision is not shown"}>{problem}</Empty>
      ) : (
        <Detail detail={data} key={data.row.sequence} />
      )}
    </>
  );
}

function Detail({ detail }: { detail: DecisionDetail }) {
  const { explanation, journey, row } = detail;
  return (
    <div class="live-data">
      <p class="sentence">{sentence(explanation)}</p>
      <div class="grid two">
        <Panel title="The request" padded>
          <Facts
            facts={[
              ["time", absolute(row.at)],
              ["model", row.targetModel === row.model ? row.model : `${row.model}, rewritten to ${row.targetModel}`],
              ["priority", String(row.priority)],
              ["prompt", bytes(explanation.promptBytes)],
              ...(row.key === null ? [] : [["key", row.key] as const]),
              [
                "profile",
                `${explanation.profile || "none ran"}${explanation.configHash === "" ? "" : `, configuration ${explanation.configHash}`}${detail.configInForce ? "" : " (no longer used)"}`,
              ],
              ["number", `#${row.sequence}`],
            ]}
          />
        </Panel>
        <JourneyPanel journey={journey} />
      </div>
      <Funnel explanation={explanation} />
      {explanation.candidates.length > 0 && <Candidates {...explanation} />}
      <WhatIf detail={detail} />
    </div>
  );
}

function sentence({ refusal, reason, candidates }: ExplanationJson): string {
  if (refusal !== null) return `The client received ${refusal.status}: ${refusal.detail}`;
  return `${candidates[0]?.id ?? "No endpoint"}: ${reason}`;
}

/** Who was left out, in the order of the decision, and who was left. */
function Funnel({ explanation }: { explanation: ExplanationJson }) {
  const { candidateCount, filters, notes, others, candidates } = explanation;
  let left = candidateCount;
  const steps = filters.map(({ name, dropped, ids, text }) => {
    left -= dropped;
    return { name, dropped, ids, text, left };
  });
  const most = Math.max(1, candidateCount);
  return (
    <Panel title="From endpoints to the pick" padded>
      <ol class="funnel">
        <li>
          <span class="funnel-bar">
            <i style={{ width: `${(candidateCount / most) * 100}%` }} />
          </span>
          <span>{counted(candidateCount, "candidate")}</span>
        </li>
        {steps.map((step) => (
          <li key={step.name}>
            <span class="funnel-bar">
              <i style={{ width: `${(step.left / most) * 100}%` }} />
            </span>
            <span>
              <b>{step.name === "served-models" ? "choice by model" : step.name}</b> removed {count(step.dropped)}
              {step.ids.length > 0 && ": "}
              {step.ids.map((id, at) => [
                at > 0 && ", ",
                <a key={id} href={linkTo("endpoints", id)}>
                  {id}
                </a>,
              ])}
              {step.dropped > step.ids.length &&
                step.ids.length > 0 &&
                ` and ${count(step.dropped - step.ids.length)} more`}
              <span class="soft"> · {count(step.left)} left</span>
            </span>
          </li>
        ))}
        <li>
          <span class="funnel-bar ours">
            <i style={{ width: candidates.length === 0 ? "0" : `${Math.max(1, 100 / most)}%` }} />
          </span>
          <span>
            {candidates[0] === undefined ? (
              <Badge tone="bad">no endpoint</Badge>
            ) : (
              <>
                picked <a href={linkTo("endpoints", candidates[0].id)}>{candidates[0].id}</a>
              </>
            )}
          </span>
        </li>
      </ol>
      {filters.length === 0 && candidates.length > 0 && <p class="note">No filter left out a candidate.</p>}
      <ul class="notes">
        {others.map(({ profile, id }) => (
          <li key={profile}>
            Profile {profile} chose {id}.
          </li>
        ))}
        {notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </Panel>
  );
}

/** Loads the scheduler only when someone wants a replay: it is larger than the rest of the page. */
function WhatIf({ detail }: { detail: DecisionDetail }) {
  const [view, setView] = useState<ComponentType<WhatIfProps> | undefined>(undefined);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  // A replay that is open stays, also when the process has dropped the record meanwhile.
  if (!detail.row.full && view === undefined)
    return (
      <Panel title="What if" padded>
        <p class="soft">
          This decision has no full record now, so it cannot be replayed with another configuration. The process makes a
          full record of one decision in 256 (one in N with --full-records-every N). If it runs with --decision-header,
          it also makes one for each request with x-sluice-explain: 1. It keeps the newest 64 records.
        </p>
      </Panel>
    );
  const open = (): void => {
    import("../what-if/what-if.tsx").then(
      (module) => setView(() => module.WhatIf),
      () => setProblem("the page could not load the scheduler from the process"),
    );
  };
  if (view !== undefined) {
    const View = view;
    return <View detail={detail} />;
  }
  return (
    <Panel title="What if" padded>
      <p>
        <button type="button" class="button" onClick={open}>
          Replay with another configuration
        </button>{" "}
        <span class="soft">The scheduler runs in this browser; nothing changes in the process.</span>
        {problem !== undefined && <span class="bad"> {problem}</span>}
      </p>
    </Panel>
  );
}
