import type { BatchesFeed, BatchFeed, BatchStatusFeed } from "../../../src/wires/admin/feed/batches.ts";
import { useAsked } from "../feed/ask.ts";
import { absolute, count, counted, figure, percent, perSecond, span, spanOfSeconds } from "../format.ts";
import { Badge, Cut, Empty, Panel, type Tone } from "../parts/basics.tsx";
import { type Column, Table } from "../parts/table.tsx";

const EVERY_MS = 2_000;

const TONES: Readonly<Record<BatchStatusFeed, Tone>> = {
  validating: "ours",
  in_progress: "ours",
  finalizing: "ours",
  completed: "good",
  failed: "bad",
  expired: "bad",
  cancelling: "warn",
  cancelled: "plain",
};
const GATE_TONES: Readonly<Record<BatchesFeed["gate"]["state"], Tone>> = {
  ...{ open: "good", none: "plain", unknown: "plain", closed: "warn", latched: "warn", unreadable: "bad" },
} as const;

/** The batches of the Batch API, with their progress. */
export function Batches({ now }: { now: number }) {
  const { data, problem } = useAsked<BatchesFeed>("debug/batches", EVERY_MS);
  return (
    <Panel title="Batches" note={data && noteOf(data)}>
      {data === undefined ? (
        <Empty what={problem === undefined ? "Loading" : "The batches are not shown"}>{problem}</Empty>
      ) : (
        <>
          <p class="inside">
            <Badge tone={GATE_TONES[data.gate.state]}>
              {data.gate.state === "none" ? "no gate" : `gate ${data.gate.state}`}
            </Badge>{" "}
            {data.gate.because} <span class="soft">{gateText(data)}</span>
          </p>
          <Table
            label="Batches"
            columns={columnsAt(now)}
            rows={data.batches}
            keyOf={({ id }) => id}
            empty={<Empty what="No batch yet">Clients make them with POST /v1/batches.</Empty>}
          />
          <p class="inside note">
            The page changes nothing. To end a batch, its caller sends <code>POST /v1/batches/ID/cancel</code>.
          </p>
        </>
      )}
    </Panel>
  );
}

function noteOf({ open, linesLeft, linesPerSecond }: BatchesFeed): string {
  return `${count(open)} open, ${counted(linesLeft, "line")} left, ${perSecond(linesPerSecond)}`;
}

function gateText({ gate: { budget, baseline, running, workers } }: BatchesFeed): string {
  const share = budget === null || baseline === null ? "" : `free ${percent(budget)}, kept free ${percent(baseline)}; `;
  return `${share}${count(running)} of at most ${counted(workers, "line")} at the model servers`;
}

const columnsAt = (now: number): readonly Column<BatchFeed>[] => [
  { name: "batch", isHead: true, className: "batch-id", cell: ({ id }) => <Cut text={id} /> },
  { name: "caller", sort: ({ caller }) => caller, cell: ({ caller }) => (caller === "" ? "–" : <Cut text={caller} />) },
  {
    ...{ name: "status", sort: ({ status }) => status },
    cell: ({ status, endedAt }) => (
      <Badge tone={TONES[status]} title={endedAt === null ? undefined : `since ${absolute(endedAt * 1000)}`}>
        {status.replace("_", " ")}
      </Badge>
    ),
  },
  {
    name: "progress",
    // A problem is in sight at 1,280 px here; a column of its own at the end of the row was not.
    cell: (batch) => (
      <>
        <Progress batch={batch} />
        {batch.problem !== null && <div class="bad batch-problem">{batch.problem}</div>}
      </>
    ),
  },
  { name: "under way", numeric: true, cell: ({ underWay }) => count(underWay) },
  { name: "rate", numeric: true, cell: ({ linesPerSecond }) => perSecond(linesPerSecond) },
  { name: "time left", numeric: true, cell: ({ etaSeconds }) => spanOfSeconds(etaSeconds) },
  {
    ...{ name: "deadline", sort: ({ expiresAt }) => expiresAt },
    cell: ({ expiresAt, endedAt, makesIt }) =>
      endedAt !== null ? (
        "–"
      ) : (
        <>
          <span title={absolute(expiresAt * 1000)}>in {span(Math.max(0, expiresAt * 1000 - now))}</span>
          {makesIt !== null && (
            <div>
              <Badge tone={makesIt ? "good" : "bad"}>{makesIt ? "makes it" : "too late"}</Badge>
            </div>
          )}
        </>
      ),
  },
  {
    ...{ name: "tokens", numeric: true, title: "of the inputs and of the answers" },
    cell: ({ inputTokens, outputTokens }) => `${figure(inputTokens)} → ${figure(outputTokens)}`,
  },
];

/** Lines with an answer, those with an error apart. */
function Progress({ batch: { total, completed, failed } }: { batch: BatchFeed }) {
  if (total === 0) return <>–</>;
  const share = (lines: number) => ({ width: `${(lines / total) * 100}%` });
  return (
    <span class="progress">
      <span class="strip" aria-hidden="true">
        {completed > 0 && <i class="good" style={share(completed)} />}
        {failed > 0 && <i class="bad" style={share(failed)} />}
      </span>
      {count(completed + failed)} of {count(total)}
      {failed > 0 && <span class="bad"> ({count(failed)} failed)</span>}
    </span>
  );
}
