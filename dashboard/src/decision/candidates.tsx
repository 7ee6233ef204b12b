import { useState } from "preact/hooks";
import type { ExplanationJson } from "../../../src/wires/admin/feed/decisions.ts";
import { count, figure, percent } from "../format.ts";
import { Badge, Panel, Segments } from "../parts/basics.tsx";
import { linkTo } from "../router.ts";
import { points, weightText } from "./points.ts";
import { StackedBar } from "./stacked-bar.tsx";
import { ranked, roomOf, type WeightRoom } from "./weights.ts";

type Candidate = ExplanationJson["candidates"][number];

const SHOWN = [
  ["all", "points"],
  ["apart", "what differs"],
] as const;

/** The name of a scorer for a narrow column. */
const short = (scorer: string): string => scorer.replace(/-scorer$/, "");

/** The candidates with each scorer's share of their totals. Other weights can be tried: the order follows. */
export function Candidates({ candidates, picker, tied }: Pick<ExplanationJson, "candidates" | "picker" | "tied">) {
  const scorers = candidates[0]?.scores.map(({ scorer, weight }) => ({ scorer, weight })) ?? [];
  const recorded = scorers.map(({ weight }) => weight);
  const [shown, setShown] = useState<"all" | "apart">("all");
  const [tried, setTried] = useState<readonly number[]>(recorded);
  const scored = candidates.map((candidate) => ({ ...candidate, scores: candidate.scores.map(({ score }) => score) }));
  const isTried = tried.some((weight, at) => weight !== recorded[at]);
  // The recorded order is the picker's, which may draw by chance.
  const order = isTried ? ranked(scored, tried) : scored.map((candidate) => ({ ...candidate, now: candidate.total }));
  const partsOf = (scores: readonly number[]) =>
    scorers.map(({ scorer }, at) => ({ name: scorer, points: (scores[at] ?? 0) * (tried[at] ?? 0) }));
  // What all candidates have of a scorer moves none ahead.
  const common = scorers.map((_, at) =>
    shown === "all" ? 0 : Math.min(...order.map(({ scores }) => partsOf(scores)[at]?.points ?? 0)),
  );
  const drawn = (scores: readonly number[]) =>
    partsOf(scores).map((part, at) => ({ ...part, points: part.points - (common[at] ?? 0) }));
  const most = Math.max(
    0,
    ...order.map(({ scores }) => drawn(scores).reduce((sum, { points: share }) => sum + share, 0)),
  );
  const room = roomOf(scored, recorded);
  return (
    <Panel
      title="Candidates"
      note={
        isTried
          ? "totals with the weights that you try"
          : `the best come first; ${tied > 1 ? `${count(tied)} had the best total, and chance decided` : `picked by ${picker}`}`
      }
    >
      <div class="inside weights">
        {scorers.map(({ scorer, weight }, at) => (
          <label key={scorer}>
            <span class={`swatch square c${at % 8}`} aria-hidden="true" />
            <span class="name">{scorer}</span>
            <input
              type="number"
              min="0"
              step="0.1"
              aria-label={`weight of ${scorer}`}
              value={tried[at]}
              onInput={(event) => {
                const value = event.currentTarget.valueAsNumber;
                if (value >= 0) setTried(tried.with(at, value));
              }}
            />
            <span class="soft">{roomText(weight, room[at])}</span>
          </label>
        ))}
        {isTried && (
          <p class="tried" role="status">
            At these weights <b>{order[0]?.id}</b>{" "}
            {order[0]?.id === candidates[0]?.id ? "stays the pick" : "would have been the pick"}.{" "}
            <button type="button" class="button" onClick={() => setTried(recorded)}>
              Recorded weights
            </button>
          </p>
        )}
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls can be reached by keyboard only when it takes the focus */}
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for the fields of a form */}
      <div class="scroll" role="group" tabIndex={0} aria-label="Candidates with their scores">
        <table class="candidates">
          <thead>
            <tr>
              <th scope="col">candidate</th>
              <th scope="col">
                <Segments<"all" | "apart">
                  label="Share of each scorer"
                  options={SHOWN}
                  value={shown}
                  onChange={setShown}
                />
              </th>
              <th scope="col" class="n">
                total
              </th>
              {scorers.map(({ scorer }, at) => (
                <th scope="col" class="n" key={scorer} title={`${scorer}: raw score, 0 to 1`}>
                  <span class={`swatch square c${at % 8}`} aria-hidden="true" /> {short(scorer)} ×{" "}
                  {weightText(tried[at] ?? 0)}
                </th>
              ))}
              <th
                scope="col"
                class="n"
                title="in flight: sent by this process; running, waiting: as the model server reports"
              >
                in flight / running / waiting
              </th>
              <th scope="col" class="n">
                KV cache
              </th>
            </tr>
          </thead>
          <tbody>
            {order.map((candidate, place) => (
              <tr key={candidate.id} class={place === 0 ? "pick" : undefined}>
                <th scope="row" class="whole">
                  <a href={linkTo("endpoints", candidate.id)} title={candidate.hostPort}>
                    {candidate.id}
                  </a>{" "}
                  <PlaceBadge place={place} candidate={candidate} isTried={isTried} />
                </th>
                <td class="stack-cell">
                  <StackedBar parts={drawn(candidate.scores)} most={most} />
                </td>
                <td class="n">
                  <b>{points(candidate.now)}</b>
                </td>
                {candidate.scores.map((score, at) => (
                  <td
                    class="n"
                    key={scorers[at]?.scorer}
                    title={`${points(score)} × ${weightText(tried[at] ?? 0)} = ${points(score * (tried[at] ?? 0))}`}
                  >
                    {points(score)}
                  </td>
                ))}
                <td class="n">
                  {count(candidate.inFlight)} / {figure(candidate.running)} / {figure(candidate.waiting)}
                </td>
                <td class="n" title={candidate.age}>
                  {percent(candidate.kvUsage)}
                  {candidate.stale && <div class="warn">{candidate.age.replace(/^metrics /, "")}</div>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function PlaceBadge({
  place,
  candidate,
  isTried,
}: {
  place: number;
  candidate: Pick<Candidate, "state">;
  isTried: boolean;
}) {
  if (candidate.state !== "up")
    return <Badge tone={candidate.state === "down" ? "bad" : "warn"}>{candidate.state}</Badge>;
  if (place === 0) return <Badge tone="ours">{isTried ? "would be picked" : "picked"}</Badge>;
  return place === 1 ? <Badge>runner-up</Badge> : null;
}

/** How far a weight can move, in words. */
export function roomText(weight: number, room: WeightRoom | undefined): string {
  const below = room?.below === undefined ? undefined : `below ${weightText(room.below.weight)} ${room.below.id} wins`;
  const above = room?.above === undefined ? undefined : `above ${weightText(room.above.weight)} ${room.above.id} wins`;
  if (below === undefined && above === undefined) return `was ${weightText(weight)}; no weight changes the pick`;
  return `was ${weightText(weight)}; ${[below, above].filter((text) => text !== undefined).join(", ")}`;
}
