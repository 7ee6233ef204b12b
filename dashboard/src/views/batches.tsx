import { useState } from "preact/hooks";
import { messageOf } from "../../../src/base/inference/errors.ts";
import type { BatchCancel, BatchesFeed, BatchFeed, BatchStatusFeed } from "../../../src/wires/admin/feed/batches.ts";
import { order, useAsked } from "../feed/ask.ts";
import { absolute, count, counted, figure, percent, perSecond, span, spanOfSeconds } from "../format.ts";
import { Badge, Cut, Empty, Panel, type Tone } from "../parts/basics.tsx";
import { Confirm } from "../parts/confirm.tsx";
import { type CancelOrder, Ordered } from "../parts/ordered.tsx";
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

/** The statuses from which a batch can be cancelled. */
const CANCELLABLE: ReadonlySet<BatchStatusFeed> = new Set(["validating", "in_progress"]);

/** The batches of the Batch API, with their progress. */
export function Batches({ now }: { now: number }) {
  const [turn, setTurn] = useState(0);
  const [asked, setAsked] = useState<BatchFeed | undefined>(undefined);
  const [ordered, setOrdered] = useState<CancelOrder | undefined>(undefined);
  const { data, problem } = useAsked<BatchesFeed>("debug/batches", EVERY_MS, turn);
  const cancel = ({ id }: BatchFeed): void => {
    order<BatchFeed>("debug/batches/cancel", { id } satisfies BatchCancel)
      .then(
        () => setOrdered({ id }),
        (error: unknown) => setOrdered({ id, problem: messageOf(error) }),
      )
      .finally(() => setTurn((before) => before + 1));
  };
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
            columns={columnsAt(now, data.mayCancel ? setAsked : undefined)}
            rows={data.batches}
            keyOf={({ id }) => id}
            empty={<Empty what="No batch yet">Clients make them with POST /v1/batches.</Empty>}
          />
          {ordered !== undefined && <Ordered {...ordered}>is {statusText(data, ordered.id)}.</Ordered>}
          <p class="inside note">
            {data.mayCancel
              ? "The caller of a batch can also cancel it: "
              : "This page can cancel a batch only on the machine of the process. The caller can cancel it: "}
            <code>POST /v1/batches/ID/cancel</code>
          </p>
          {asked !== undefined && (
            <Confirm
              title="Cancel this batch?"
              order="Cancel the batch"
              keep="Keep it"
              onOrder={() => cancel(asked)}
              onClose={() => setAsked(undefined)}
            >
              <p>
                <code>{asked.id}</code>
                {asked.caller !== "" && ` of ${asked.caller}`}: {whatIsLost(asked)} You cannot undo this.
              </p>
            </Confirm>
          )}
        </>
      )}
    </Panel>
  );
}

/** The status of a batch that is cancelled, as far as the list has it already. */
function statusText({ batches }: BatchesFeed, id: string): string {
  const status = batches.find((batch) => batch.id === id)?.status ?? "cancelled";
  return status === "cancelling" || CANCELLABLE.has(status) ? "being cancelled" : status;
}

function noteOf({ open, linesLeft, linesPerSecond }: BatchesFeed): string {
  return `${count(open)} open, ${counted(linesLeft, "line")} left, ${perSecond(linesPerSecond)}`;
}

function gateText({ gate: { budget, baseline, running, workers } }: BatchesFeed): string {
  const share = budget === null || baseline === null ? "" : `free ${percent(budget)}, kept free ${percent(baseline)}; `;
  return `${share}${count(running)} of at most ${counted(workers, "line")} at the model servers`;
}

function whatIsLost({ total, completed, failed, underWay }: BatchFeed): string {
  if (total === 0) return "its lines are not validated yet, and none is sent.";
  const left = counted(total - completed - failed, "line");
  return `${left} of ${count(total)} without an answer; those not sent end with batch_cancelled, and ${count(underWay)} under way may end.`;
}

/** @param cancel asks whether to end a batch; undefined = this page may not */
const columnsAt = (now: number, cancel?: (batch: BatchFeed) => void): readonly Column<BatchFeed>[] => [
  { name: "batch", isHead: true, className: "batch-id", cell: ({ id }) => <Cut text={id} /> },
  {
    ...{ name: "caller", className: "not-narrow", sort: ({ caller }: BatchFeed) => caller },
    cell: ({ caller }) => (caller === "" ? "–" : <Cut text={caller} />),
  },
  {
    ...{ name: "status", sort: ({ status }) => status },
    cell: (batch) => (
      <>
        <Badge
          tone={TONES[batch.status]}
          title={batch.endedAt === null ? undefined : `since ${absolute(batch.endedAt * 1000)}`}
        >
          {batch.status.replace("_", " ")}
        </Badge>
        {cancel !== undefined && CANCELLABLE.has(batch.status) && (
          <div>
            <button type="button" class="link" aria-label={`Cancel ${batch.id}`} onClick={() => cancel(batch)}>
              cancel
            </button>
          </div>
        )}
      </>
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
