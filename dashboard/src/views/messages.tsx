import { useState } from "preact/hooks";
import { messageOf } from "../../../src/base/inference/errors.ts";
import type {
  MessageCancel,
  MessageFeed,
  MessageMarked,
  MessagesFeed,
} from "../../../src/wires/admin/feed/messages.ts";
import { order, useAsked } from "../feed/ask.ts";
import { absolute, bytes, count, span } from "../format.ts";
import { Cut, Empty, Moment, Panel } from "../parts/basics.tsx";
import { Confirm } from "../parts/confirm.tsx";
import { type CancelOrder, Ordered } from "../parts/ordered.tsx";
import { type Column, Table } from "../parts/table.tsx";

/** The next messages of a queue, and an order that cancels one. @param queues names, at least one */
export function Messages({ queues, now }: { queues: readonly string[]; now: number }) {
  const [chosen, setChosen] = useState<string | undefined>(undefined);
  const [turn, setTurn] = useState(0);
  const [typed, setTyped] = useState("");
  const [asked, setAsked] = useState<string | undefined>(undefined);
  const [ordered, setOrdered] = useState<CancelOrder | undefined>(undefined);
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const queue = chosen !== undefined && queues.includes(chosen) ? chosen : queues[0]!;
  const path = `debug/queues/messages?queue=${encodeURIComponent(queue)}`;
  const { data, problem } = useAsked<MessagesFeed>(path, undefined, turn);
  const again = (): void => setTurn((before) => before + 1);
  const cancel = (id: string): void => {
    order<MessageMarked>("debug/queues/cancel", { id } satisfies MessageCancel)
      .then(
        () => {
          setOrdered({ id });
          setMarked((before) => new Set([...before, id]));
        },
        (error: unknown) => setOrdered({ id, problem: messageOf(error) }),
      )
      .finally(again);
  };
  return (
    <Panel
      title="Next messages"
      note={
        <span class="inline-tools">
          {data !== undefined && (
            <span>
              as of <Moment at={data.at} />
            </span>
          )}
          {queues.length > 1 && (
            <label class="field">
              queue{" "}
              <select value={queue} onChange={(event) => setChosen(event.currentTarget.value)}>
                {queues.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            </label>
          )}
          <button type="button" class="button" onClick={again}>
            Read again
          </button>
        </span>
      }
    >
      {data === undefined ? (
        <Empty what={problem === undefined ? "Loading" : "The messages are not shown"}>{problem}</Empty>
      ) : (
        <>
          {problem !== undefined && <p class="inside bad">{problem}</p>}
          <Table
            label="Next messages"
            columns={columnsAt(now, data.mayCancel ? setAsked : undefined, marked)}
            rows={data.messages}
            keyOf={(message) => data.messages.indexOf(message)}
            empty={<Empty what="No message waits">A message that a dispatcher has claimed is not listed.</Empty>}
          />
          {data.mayCancel ? (
            <form
              class="inside filters"
              onSubmit={(event) => {
                event.preventDefault();
                if (typed.trim() !== "") setAsked(typed.trim());
              }}
            >
              <label class="field">
                Cancel another message, by its ID{" "}
                <input class="wide" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
              </label>
              <button type="submit" class="button">
                Cancel it
              </button>
            </form>
          ) : (
            <p class="inside note">
              This page cancels messages only on the machine of the process. Elsewhere, run{" "}
              <code>sluice queue cancel ID</code>
            </p>
          )}
          {ordered !== undefined && (
            <Ordered {...ordered}>
              is marked: it ends with CANCELLED when its turn comes, unless a model server already has it.
            </Ordered>
          )}
        </>
      )}
      {asked !== undefined && (
        <Confirm
          title="Cancel this message?"
          order="Cancel the message"
          keep="Keep it"
          onOrder={() => {
            cancel(asked);
            setTyped("");
          }}
          onClose={() => setAsked(undefined)}
        >
          <p>
            <code>{asked}</code>: when its turn comes, it ends with CANCELLED in place of an answer. A message that a
            model server already has goes on. You cannot undo this.
          </p>
        </Confirm>
      )}
    </Panel>
  );
}

/** @param cancel asks whether to cancel a message; undefined = this page may not @param marked those that it has cancelled */
const columnsAt = (
  now: number,
  cancel: ((id: string) => void) | undefined,
  marked: ReadonlySet<string>,
): readonly Column<MessageFeed>[] => [
  { name: "message", isHead: true, cell: ({ id }) => (id === null ? "unreadable" : <Cut text={id} />) },
  ...(cancel === undefined
    ? []
    : [
        {
          name: "order",
          cell: ({ id }: MessageFeed) =>
            id === null ? (
              "–"
            ) : marked.has(id) ? (
              "marked"
            ) : (
              <button type="button" class="link" aria-label={`Cancel ${id}`} onClick={() => cancel(id)}>
                cancel
              </button>
            ),
        },
      ]),
  {
    name: "deadline",
    cell: ({ deadline }) => (deadline === null ? "–" : <Time at={deadline} now={now} />),
  },
  { name: "created", cell: ({ created }) => (created === null ? "–" : <Time at={created} now={now} />) },
  { name: "retries", numeric: true, cell: ({ retries }) => count(retries) },
  { name: "size", numeric: true, cell: ({ bytes: size }) => bytes(size) },
];

/** @param at Unix seconds */
function Time({ at, now }: { at: number; now: number }) {
  const from = at * 1000 - now;
  return <span title={absolute(at * 1000)}>{from > 0 ? `in ${span(from)}` : `${span(-from)} ago`}</span>;
}
