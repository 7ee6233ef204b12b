import { useAsked } from "../feed/ask.ts";
import { count, percent } from "../format.ts";
import { Bar, Cut, Empty, Panel } from "../parts/basics.tsx";
import { type Column, Table } from "../parts/table.tsx";

const EVERY_MS = 2_000;

interface Used {
  readonly used: number;
  readonly limit?: number;
}

interface Counter {
  readonly counter: string;
  readonly requests?: Used;
  readonly tokens?: Used;
  readonly inFlight: { readonly here: number; readonly elsewhere: number; readonly limit?: number };
  readonly gateways: number;
}

/** The answer of `/debug/limits`. */
interface LimitsAnswer {
  readonly shared?: { readonly redis: string; readonly state: "shared" | "last known" };
  readonly rules: readonly { readonly rule: string; readonly inUse: number; readonly counters: readonly Counter[] }[];
}

const usedOf = (amount: Used | undefined): string =>
  amount === undefined
    ? "–"
    : amount.limit === undefined
      ? count(amount.used)
      : `${count(amount.used)} of ${count(amount.limit)}`;

const inFlightOf = ({ inFlight: { here, elsewhere, limit } }: Counter): Used => ({
  used: here + elsewhere,
  ...(limit === undefined ? {} : { limit }),
});

/** The largest used part of the limits of a counter. */
function shareOf(counter: Counter): number {
  const parts = [counter.requests, counter.tokens, inFlightOf(counter)];
  return Math.max(0, ...parts.map((part) => (part?.limit === undefined ? 0 : part.used / part.limit)));
}

const COLUMNS: readonly Column<Counter>[] = [
  {
    name: "key or model",
    isHead: true,
    cell: ({ counter }) => <Cut text={counter} />,
  },
  { name: "requests per minute", numeric: true, cell: ({ requests }) => usedOf(requests) },
  { name: "tokens per minute", numeric: true, cell: ({ tokens }) => usedOf(tokens) },
  { name: "in flight", numeric: true, cell: (counter) => usedOf(inFlightOf(counter)) },
  {
    ...{ name: "used", numeric: true },
    cell: (counter) => (
      <>
        {percent(shareOf(counter))}
        <Bar of={shareOf(counter)} isLimit />
      </>
    ),
  },
  { name: "gateways", numeric: true, cell: ({ gateways }) => count(gateways), title: "gateways that count together" },
];

const SHARED: Readonly<Record<string, string>> = {
  shared: "Counted together with the other gateways, in Redis.",
  "last known": "Redis is away: this gateway adds the last known use of the others.",
};

/** The limits by key and model, the fullest first. */
export function Limits() {
  const { data, problem } = useAsked<LimitsAnswer>("debug/limits", EVERY_MS);
  const counters = (data?.rules.flatMap(({ counters: all }) => all) ?? []).toSorted((a, b) => shareOf(b) - shareOf(a));
  const more = (data?.rules.reduce((sum, { inUse }) => sum + inUse, 0) ?? 0) - counters.length;
  return (
    <Panel title="Limits">
      {data === undefined ? (
        <Empty what={problem === undefined ? "Loading" : "The limits are not shown"}>{problem}</Empty>
      ) : (
        <Table
          label="Limits"
          caption={`${SHARED[data.shared?.state ?? ""] ?? "Counted by this gateway alone."} The fullest come first${more > 0 ? `; ${count(more)} more are in use` : ""}.`}
          columns={COLUMNS}
          rows={counters}
          keyOf={({ counter }) => counter}
          empty={<Empty what="Nothing is used">A counter appears with its first request.</Empty>}
        />
      )}
    </Panel>
  );
}
