import type { Journey, JourneyStep } from "../../../src/wires/admin/feed/decisions.ts";
import { absolute, figure, span } from "../format.ts";
import { Empty, Panel } from "../parts/basics.tsx";

const STEP_TEXT: Readonly<Record<JourneyStep["kind"], string>> = {
  received: "received",
  queued: "queued",
  "left-queue": "left the queue",
  decided: "decided",
  refused: "refused",
  attempt: "attempt",
  "attempt-failed": "attempt failed",
  "first-token": "first token",
  end: "end",
};

/** What a request does after a step, and its colour. */
const AFTER: Readonly<Partial<Record<JourneyStep["kind"], readonly [string, number]>>> = {
  received: ["deciding", 6],
  queued: ["in the queue", 1],
  "left-queue": ["deciding", 6],
  decided: ["to the endpoint", 5],
  attempt: ["at the model server, before the first token", 0],
  "attempt-failed": ["trying again", 3],
  "first-token": ["the answer streams", 2],
};

/** The way of a request through queue, attempts, first token and end. */
export function JourneyPanel({ journey }: { journey: Journey }) {
  const { steps, receivedAt } = journey;
  const end = steps.at(-1)?.ms ?? 0;
  const parts = steps.slice(0, -1).flatMap((step, at) => {
    const [text, colour] = AFTER[step.kind] ?? ["", 6];
    const length = (steps[at + 1]?.ms ?? step.ms) - step.ms;
    return length > 0 ? [{ text, colour, length, key: at }] : [];
  });
  const seen = [...new Map(parts.map((part) => [part.text, part])).values()];
  return (
    <Panel title="Path of the request" note={receivedAt === null ? undefined : `received ${absolute(receivedAt)}`}>
      {steps.length === 0 ? (
        <Empty what="The steps are no longer kept">The process keeps the steps only of its latest requests.</Empty>
      ) : (
        <div class="inside">
          <div class="strip tall" aria-hidden="true">
            {parts.map(({ key, colour, length, text }) => (
              <i
                key={key}
                class={`c${colour}`}
                style={{ width: `${(length / end) * 100}%` }}
                title={`${text}: ${span(length)}`}
              />
            ))}
          </div>
          <ul class="legend">
            {seen.map(({ text, colour }) => (
              <li key={text}>
                <span class={`swatch square c${colour}`} aria-hidden="true" />
                {text}{" "}
                <b>{span(parts.filter((part) => part.text === text).reduce((sum, { length }) => sum + length, 0))}</b>
              </li>
            ))}
          </ul>
          <ol class="steps">
            {steps.map((step, at) => (
              <li key={at} class={step.kind === "refused" || step.kind === "attempt-failed" ? "bad" : undefined}>
                <span class="n">{span(step.ms)}</span>
                <b>{STEP_TEXT[step.kind] ?? step.kind}</b>
                <span>
                  {step.endpoint !== null && <code>{step.endpoint}</code>} {step.text}
                </span>
              </li>
            ))}
          </ol>
          <p class="note">
            {journey.promptTokens !== null &&
              `${figure(journey.promptTokens)} prompt tokens, of which ${figure(journey.cachedTokens)} cached; ${figure(journey.outputTokens)} output tokens`}
          </p>
        </div>
      )}
    </Panel>
  );
}
