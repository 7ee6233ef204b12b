import { useMemo, useRef, useState } from "preact/hooks";
import type { RecordedCandidate, RecordedScorer } from "../../../src/base/inference/decision-record.ts";
import { messageOf } from "../../../src/base/inference/errors.ts";
import type { ReplayOutcome } from "../../../src/picker/decisions/replay.ts";
import type { ConfigFeed, PickerConfigFeed, TextNote } from "../../../src/wires/admin/feed/config.ts";
import type { DecisionDetail } from "../../../src/wires/admin/feed/decisions.ts";
import { points, weightText } from "../decision/points.ts";
import { StackedBar } from "../decision/stacked-bar.tsx";
import { useAsked } from "../feed/ask.ts";
import { Badge, Empty, Panel, Segments } from "../parts/basics.tsx";
import { linkTo } from "../router.ts";
import { addable, type EditedMember, type EditedProfile, editable, type Plugins, replayEdited } from "./edited.ts";
import { useCheck } from "./use-check.ts";

export interface WhatIfProps {
  readonly detail: DecisionDetail;
}

/** Replays a decision against the configuration in force, edited here. Nothing changes in the process. */
export function WhatIf({ detail }: WhatIfProps) {
  const { data, problem } = useAsked<ConfigFeed>("debug/feed/config");
  if (data === undefined || data.picker === null)
    return (
      <Panel title="What if">
        <Empty what={problem === undefined ? "Loading the configuration" : "The configuration is not known"}>
          {problem}
        </Empty>
      </Panel>
    );
  return <Editor detail={detail} config={data.picker} />;
}

type Outcome = { readonly outcome: ReplayOutcome } | { readonly problem: string };

function outcomeOf(detail: DecisionDetail, plugins: Plugins, profiles: readonly EditedProfile[]): Outcome {
  try {
    const outcome = replayEdited(detail.record, plugins, profiles);
    return outcome === undefined
      ? { problem: "Sluice refused the request before any decision: there is nothing to replay" }
      : { outcome };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

const MODES = [
  ["form", "weights and parameters"],
  ["text", "YAML"],
] as const;
type Mode = (typeof MODES)[number][0];

function Editor({ detail, config }: WhatIfProps & { config: PickerConfigFeed }) {
  const [mode, setMode] = useState<Mode>("form");
  const inForce = useMemo(() => editable(config), [config]);
  // Here, so that what was edited in one way is there after a look at the other one.
  const [profiles, setProfiles] = useState<readonly EditedProfile[]>(inForce);
  const [text, setText] = useState(config.text ?? "");
  return (
    <Panel
      title="What if"
      note={
        <span class="inline-tools">
          runs in this browser; nothing changes in the process
          {config.text !== null && (
            <Segments<Mode> label="Edit the configuration as" options={MODES} value={mode} onChange={setMode} />
          )}
        </span>
      }
    >
      <div class="inside what-if">
        {mode === "form" ? (
          <FormEditor {...{ detail, inForce, profiles, setProfiles }} plugins={config.plugins} />
        ) : (
          <TextEditor {...{ detail, text, setText }} inForce={config.text ?? ""} />
        )}
      </div>
    </Panel>
  );
}

interface FormEditorProps extends WhatIfProps {
  readonly plugins: Plugins;
  readonly inForce: readonly EditedProfile[];
  readonly profiles: readonly EditedProfile[];
  readonly setProfiles: (profiles: readonly EditedProfile[]) => void;
}

function FormEditor({ detail, plugins, inForce, profiles, setProfiles }: FormEditorProps) {
  const outcome = useMemo(() => outcomeOf(detail, plugins, profiles), [detail, plugins, profiles]);
  const change = (at: number, members: readonly EditedMember[]): void =>
    setProfiles(profiles.with(at, { ...profiles[at]!, members }));
  const isEdited = JSON.stringify(profiles) !== JSON.stringify(inForce);
  return (
    <>
      <div>
        {profiles.map((profile, at) => (
          <ProfileEditor key={profile.name} profile={profile} onChange={(members) => change(at, members)} />
        ))}
        <p>
          <button type="button" class="button" disabled={!isEdited} onClick={() => setProfiles(inForce)}>
            Current configuration
          </button>
        </p>
      </div>
      <OutcomePart detail={detail} outcome={outcome} isEdited={isEdited} />
    </>
  );
}

interface TextEditorProps extends WhatIfProps {
  readonly text: string;
  readonly setText: (text: string) => void;
  readonly inForce: string;
}

/** The text of the whole configuration. The process says what it would read in it. */
function TextEditor({ detail, text, setText, inForce }: TextEditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const { check, problem } = useCheck(text);
  const picker = check?.picker ?? undefined;
  const outcome = useMemo(() => picker && outcomeOf(detail, picker.plugins, editable(picker)), [detail, picker]);
  const go = ({ line, column }: TextNote): void => {
    const before = text.split("\n", line - 1);
    const start = before.reduce((sum, one) => sum + one.length + 1, column - 1);
    field.current?.focus();
    field.current?.setSelectionRange(start, start);
  };
  const notes = (list: readonly TextNote[], tone: string) => (
    <ul class="notes">
      {list.map((note) => (
        <li key={`${note.line} ${note.column} ${note.text}`} class={tone}>
          <button type="button" class="link" onClick={() => go(note)}>
            line {note.line}, column {note.column}
          </button>{" "}
          {note.text}
        </li>
      ))}
    </ul>
  );
  return (
    <>
      <div>
        <textarea
          ref={field}
          class="yaml"
          rows={24}
          spellcheck={false}
          aria-label="EndpointPickerConfig as YAML"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <p>
          <button type="button" class="button" disabled={text === inForce} onClick={() => setText(inForce)}>
            Current configuration
          </button>
        </p>
      </div>
      <div>
        {problem !== undefined && <p class="bad">The text was not checked: {problem}</p>}
        {check !== undefined && notes(check.problems, "bad")}
        {outcome !== undefined && <OutcomePart detail={detail} outcome={outcome} isEdited={text !== inForce} />}
        {check !== undefined && notes(check.warnings, "warn")}
      </div>
    </>
  );
}

function OutcomePart({ detail, outcome, isEdited }: WhatIfProps & { outcome: Outcome; isEdited: boolean }) {
  return (
    <div role="status" class="outcome">
      {"problem" in outcome ? (
        <p class="bad">{outcome.problem}</p>
      ) : (
        <Replayed detail={detail} outcome={outcome.outcome} isEdited={isEdited} />
      )}
    </div>
  );
}

function ProfileEditor({
  profile,
  onChange,
}: {
  profile: EditedProfile;
  onChange: (members: readonly EditedMember[]) => void;
}) {
  const { name, members } = profile;
  const set = (at: number, part: Partial<EditedMember>): void =>
    onChange(members.with(at, { ...members[at]!, ...part }));
  const add = (type: string): void => {
    const found = addable(profile).find((one) => one.type === type);
    if (found === undefined) return;
    const member: EditedMember = { ...found, name: type, isOn: true, weight: 1, parameters: "{}" };
    // The picker stays last.
    onChange([...members.slice(0, -1), member, ...members.slice(-1)]);
  };
  return (
    <fieldset class="profile">
      <legend>profile {name}</legend>
      <ul>
        {members.map((member, at) => (
          <li key={member.name} class={member.isOn ? undefined : "off"}>
            <label>
              <input
                type="checkbox"
                checked={member.isOn}
                disabled={member.kind === "picker"}
                onChange={(event) => set(at, { isOn: event.currentTarget.checked })}
              />{" "}
              {member.name} <span class="soft">{member.kind}</span>
            </label>
            {member.kind === "scorer" && (
              <input
                type="number"
                min="0"
                step="0.5"
                aria-label={`weight of ${member.name} in the replay`}
                value={member.weight}
                onInput={(event) => {
                  const weight = event.currentTarget.valueAsNumber;
                  if (weight >= 0) set(at, { weight });
                }}
              />
            )}
            <details>
              <summary>parameters</summary>
              <textarea
                rows={3}
                spellcheck={false}
                aria-label={`parameters of ${member.name}, as JSON`}
                value={member.parameters}
                onInput={(event) => set(at, { parameters: event.currentTarget.value })}
              />
            </details>
          </li>
        ))}
      </ul>
      <label class="field">
        add
        <select value="" onChange={(event) => add(event.currentTarget.value)}>
          <option value="">a filter or scorer</option>
          {addable(profile).map(({ type, kind }) => (
            <option key={type} value={type}>
              {type} ({kind})
            </option>
          ))}
        </select>
      </label>
    </fieldset>
  );
}

function Replayed({ detail, outcome, isEdited }: WhatIfProps & { outcome: ReplayOutcome; isEdited: boolean }) {
  const { record, missing, differences } = outcome;
  const before = detail.row.endpoint;
  const pick = record.top[0]?.id;
  const same = isEdited ? "The pick stays" : "With the current configuration, the pick is the same";
  return (
    <>
      <p class="sentence">
        {record.refusal !== undefined ? (
          <>
            The request would be refused: {record.refusal.detail} <Badge tone="bad">{record.refusal.reason}</Badge>
          </>
        ) : pick === before ? (
          <>
            {same}: <b>{pick}</b>.
          </>
        ) : (
          <>
            The request would go to <a href={linkTo("endpoints", pick)}>{pick}</a> in place of {before ?? "nowhere"}.
          </>
        )}
      </p>
      <Totals top={record.top} scorers={record.scorers} />
      {record.filters.map(({ name, dropped, ids }) => (
        <p class="soft" key={name}>
          {name} removes {dropped}: {ids.join(", ")}
        </p>
      ))}
      {differences.length > 0 && (
        <details>
          <summary>{differences.length} differences</summary>
          <ul class="notes">
            {differences.slice(0, 40).map((difference) => (
              <li key={difference}>{difference}</li>
            ))}
          </ul>
        </details>
      )}
      {missing.map((name) => (
        <p class="warn" key={name}>
          This configuration reads {name}, which the record lacks: {name} counts as 0.
        </p>
      ))}
    </>
  );
}

function Totals({ top, scorers }: { top: readonly RecordedCandidate[]; scorers: readonly RecordedScorer[] }) {
  const most = Math.max(0, ...top.map(({ total }) => total));
  return (
    <>
      <ul class="legend">
        {scorers.map(({ name, weight }, at) => (
          <li key={name}>
            <span class={`swatch square c${at % 8}`} aria-hidden="true" />
            {name} × {weightText(weight)}
          </li>
        ))}
      </ul>
      <table class="replayed">
        <thead>
          <tr>
            <th scope="col">candidate</th>
            <th scope="col">share of each scorer</th>
            <th scope="col" class="n">
              total
            </th>
          </tr>
        </thead>
        <tbody>
          {top.map(({ id, total, scores }, place) => (
            <tr key={id} class={place === 0 ? "pick" : undefined}>
              <th scope="row">{id}</th>
              <td class="stack-cell">
                <StackedBar
                  parts={scorers.map(({ name, weight }, at) => ({ name, points: (scores[at] ?? 0) * weight }))}
                  most={most}
                />
              </td>
              <td class="n">{points(total)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
