import type { ComponentChildren, JSX } from "preact";
import { absolute, moment } from "../format.ts";

/** The meaning of a colour. */
export type Tone = "good" | "warn" | "bad" | "ours" | "plain";

/** A word with a colour; the word alone says all. */
export function Badge({
  tone = "plain",
  title,
  children,
}: {
  tone?: Tone;
  title?: string | undefined;
  children: ComponentChildren;
}) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}

/** A text in one line of limited length; the whole one on hover. */
export function Cut({ text }: { text: string }) {
  return (
    <span class="cut" title={text}>
      {text}
    </span>
  );
}

/** Characters that stay at the end of a cut name. In the name of a pod, the random part is there. */
const END = 12;

/** A name of at most so many characters is not cut. */
const UNCUT = 28;

/** A name in one line of limited length, which is cut in its middle. Screen readers get two parts: give a link with it an `aria-label`. */
export function Ends({ text }: { text: string }) {
  if (text.length <= UNCUT) return <>{text}</>;
  return (
    <span class="mid-cut" title={text}>
      <span>{text.slice(0, -END)}</span>
      {text.slice(-END)}
    </span>
  );
}

/**
 * A bar behind a number that says the same.
 * @param of 0..1; above counts as full @param isLimit a full bar is a problem, and has its colour
 */
export function Bar({ of, isLimit = false }: { of: number; isLimit?: boolean }) {
  return (
    <span class={isLimit && of >= 1 ? "bar full" : "bar"} aria-hidden="true">
      <i style={{ width: `${Math.max(0, Math.min(1, of)) * 100}%` }} />
    </span>
  );
}

/** A moment: the time of day, with the day where it is long ago; on hover the date, the milliseconds and the zone. */
export function Moment({ at }: { at: number }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={absolute(at)}>
      {moment(at, Date.now())}
    </time>
  );
}

/** The states of something over time, as a strip in their colours. Each lasts to the next one, the last until now. */
export function StateStrip<State extends string>({
  timeline,
  now,
  tones,
  label,
}: {
  timeline: readonly { readonly at: number; readonly state: State }[];
  now: number;
  tones: Readonly<Record<State, Tone>>;
  /** For screen readers; none when the text beside the strip says the same. */
  label?: string;
}) {
  const all = Math.max(1, now - (timeline[0]?.at ?? now));
  return (
    <div class="strip" {...(label === undefined ? { "aria-hidden": true } : { role: "img", "aria-label": label })}>
      {timeline.map(({ at, state }, place) => (
        <i
          key={at}
          class={tones[state]}
          title={`${state} from ${absolute(at)}`}
          style={{ width: `${(((timeline[place + 1]?.at ?? now) - at) / all) * 100}%` }}
        />
      ))}
    </div>
  );
}

/** What stands where there is no data, and why there is none. */
export function Empty({ what, children }: { what: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <b>{what}</b>
      {children}
    </div>
  );
}

/** A part of a view with its heading. */
export function Panel(props: {
  readonly title: string;
  readonly note?: ComponentChildren;
  readonly padded?: boolean;
  readonly children: ComponentChildren;
}) {
  const id = `panel-${props.title.toLowerCase().replace(/\W+/g, "-")}`;
  return (
    <section class="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{props.title}</h2>
        {props.note !== undefined && <span class="note">{props.note}</span>}
      </header>
      {props.padded === true ? <div class="inside">{props.children}</div> : props.children}
    </section>
  );
}

/** A headline figure. */
export interface TileProps {
  readonly name: string;
  readonly value: string;
  readonly also?: ComponentChildren;
  readonly tone?: Tone | undefined;
  readonly title?: string | undefined;
}

/** Headline figures in a row. */
export function Tiles({ label, tiles }: { label: string; tiles: readonly TileProps[] }) {
  return (
    <dl class="tiles" aria-label={label}>
      {tiles.map(({ name, value, also, tone = "plain", title }) => (
        <div class="tile" key={name} title={title}>
          <dt>{name}</dt>
          <dd class={tone}>{value}</dd>
          <dd class="also">{also ?? " "}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A choice of one among few. */
export function Segments<T extends string | number>(props: {
  readonly label: string;
  readonly options: readonly (readonly [T, string])[];
  readonly value: T;
  readonly onChange: (value: T) => void;
}) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be laid out as one line of buttons
    <span class="segments" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button type="button" key={value} aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {text}
        </button>
      ))}
    </span>
  );
}

/** A search field with its label. */
export function Search(props: {
  readonly label: string;
  readonly placeholder: string;
  readonly value: string;
  readonly onInput: (text: string) => void;
}): JSX.Element {
  return (
    <input
      type="search"
      aria-label={props.label}
      placeholder={props.placeholder}
      value={props.value}
      onInput={(event) => props.onInput(event.currentTarget.value)}
    />
  );
}

/** Name and value pairs. */
export function Facts({ facts }: { facts: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name} value`}>{value}</dd>])}
    </dl>
  );
}
