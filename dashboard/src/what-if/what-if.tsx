import { useMemo, useState } from "preact/hooks";
import type { RecordedCandidate, RecordedScorer } from "../../../src/base/inference/decision-record.ts";
import { messageOf } from "../../../src/base/inference/errors.ts";
import type { ReplayOutcome } from "../../../src/picker/decisions/replay.ts";
import type { ConfigFeed, PickerConfigFeed } from "../../../src/wires/admin/feed/config.ts";
import type { DecisionDetail } from "../../../src/wires/admin/feed/decisions.ts";
import { points, weightText } from "../decision/points.ts";
import { StackedBar } from "../decision/stacked-bar.tsx";
import { useAsked } from "../feed/ask.ts";
import { Badge, Empty, Panel } from "../parts/basics.tsx";
import { linkTo } from "../router.ts";
import { addable, type EditedMember, type EditedProfile, editable, replayEdited } from "./edited.ts";

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

function outcomeOf(detail: DecisionDetail, config: PickerConfigFeed, profiles: readonly EditedProfile[]): Outcome {
  try {
    const outcome = replayEdited(detail.record, config.plugins, profiles);
    return outcome === undefined
      ? { problem: "Sluice refused the request before it computed anything: there is nothing to replay" }
      : { outcome };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

function Editor({ detail, config }: WhatIfProps & { config: PickerConfigFeed }) {
  const inForce = useMemo(() => editable(config), [config]);
  const [profiles, setProfiles] = useState<readonly EditedProfile[]>(inForce);
  const outcome = useMemo(() => outcomeOf(detail, config, profiles), [detail, config, profiles]);
  const change = (at: number, members: readonly EditedMember[]): void =>
    setProfiles(profiles.with(at, { ...profiles[at]!, members }));
  const isEdited = JSON.stringify(profiles) !== JSON.stringify(inForce);
  return (
    <Panel title="What if" note="runs in this browser; nothing changes in the process">
      <div class="inside what-if">
        <div>
          {profiles.map((profile, at) => (
            <ProfileEditor key={profile.name} profile={profile} onChange={(members) => change(at, members)} />
          ))}
          <p>
            <button type="button" class="button" disabled={!isEdited} onClick={() => setProfiles(inForce)}>
              Configuration in force
            </button>
          </p>
        </div>
        <div role="status" class="outcome">
          {"problem" in outcome ? (
            <p class="bad">{outcome.problem}</p>
          ) : (
            <Replayed detail={detail} outcome={outcome.outcome} isEdited={isEdited} />
          )}
        </div>
      </div>
    </Panel>
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
  const same = isEdited ? "The pick stays" : "With the configuration in force the pick is the same";
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
          The record has nothing of {name}, which this configuration reads: it counts as 0.
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
