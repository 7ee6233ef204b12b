import { useState } from "preact/hooks";
import type { ConfigFeed, PickerConfigFeed, Reload, SettingEntry } from "../../../src/wires/admin/feed/config.ts";
import { useAsked } from "../feed/ask.ts";
import { useStore } from "../feed/use-store.ts";
import { absolute, bytes, count, counted, span } from "../format.ts";
import { Badge, Empty, Facts, Moment, Panel, Search } from "../parts/basics.tsx";
import { type Column, Table } from "../parts/table.tsx";

const EVERY_MS = 5_000;
/** The pages of the documentation that the process serves, below docs/. */
const DOCS = [
  ["this page", "operate/page"],
  ["why a request went where", "operate/why"],
  ["troubleshooting", "operate/troubleshooting"],
  ["flags", "reference/flags"],
  ["metrics", "reference/metrics"],
  ["errors", "reference/errors"],
  ["all", "index"],
] as const;

export function ConfigurationView() {
  const store = useStore();
  const { data, problem } = useAsked<ConfigFeed>("debug/feed/config", EVERY_MS);
  return (
    <>
      <div class="page-head">
        <h1>Configuration</h1>
        {data !== undefined && (
          <nav class="tools" aria-label="Other pages">
            {data.links.map(({ text, href }) => (
              <a key={href} class="button" href={href}>
                {text}
              </a>
            ))}
          </nav>
        )}
      </div>
      {data === undefined ? (
        <Empty what={problem === undefined ? "Loading" : "The configuration is not shown"}>{problem}</Empty>
      ) : (
        <div class="live-data">
          {data.warnings.length > 0 && (
            <Panel title="Warnings" note={count(data.warnings.length)} padded>
              <ul class="notes warn-list">
                {data.warnings.toReversed().map((warning) => (
                  <li key={warning}>{warning}</li>
                ))}
              </ul>
            </Panel>
          )}
          <div class="grid two">
            <Panel title="The process" padded>
              <Facts
                facts={[
                  ["Sluice", data.version],
                  ["Node.js", data.node],
                  ["process", `${data.pid}`],
                  ["started", `${absolute(data.startedAt)}`],
                  ["uptime", span(store.now() - data.startedAt)],
                  ["command line", <code key="args">{data.args.join(" ")}</code>],
                  [
                    "documentation",
                    <span key="docs">
                      {DOCS.map(([text, href], at) => [
                        at > 0 && ", ",
                        <a key={href} href={`docs/${href}.html`}>
                          {text}
                        </a>,
                      ])}
                    </span>,
                  ],
                  ["pages open", `${count(store.hello?.readers.open)} of at most ${count(store.hello?.readers.most)}`],
                  ["memory of this page's figures", bytes(store.hello?.rings.bytes)],
                ]}
              />
            </Panel>
            <Panel title="Reloads" note={data.reloads.length === 0 ? undefined : "the newest first"}>
              {data.reloads.length === 0 ? (
                <Empty what="No reload since the start">
                  A file that is followed and changes is listed here with its difference.
                </Empty>
              ) : (
                <ol class="inside reloads">
                  {data.reloads.map((reload) => (
                    <ReloadItem key={`${reload.at} ${reload.what}`} reload={reload} />
                  ))}
                </ol>
              )}
            </Panel>
          </div>
          {data.picker !== null && <PickerPanel picker={data.picker} />}
          <Settings settings={data.settings} />
        </div>
      )}
    </>
  );
}

function ReloadItem({ reload }: { reload: Reload }) {
  const { at, what, result, problems, difference } = reload;
  return (
    <li>
      <p>
        <Moment at={at} /> <Badge tone={result === "applied" ? "good" : "bad"}>{result}</Badge> <code>{what}</code>
      </p>
      {problems !== "" && <p class="bad">{problems}</p>}
      {difference.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls can be reached by keyboard only when it takes the focus
        <pre class="difference" tabIndex={0}>
          {difference.map((line, place) => (
            <span key={place} class={line.startsWith("+") ? "good" : line.startsWith("-") ? "bad" : undefined}>
              {line}
              {"\n"}
            </span>
          ))}
        </pre>
      )}
    </li>
  );
}

function PickerPanel({ picker }: { picker: PickerConfigFeed }) {
  const { profiles, plugins, text, hash, origin, since, flowControl } = picker;
  return (
    <Panel
      title="Current EndpointPickerConfig"
      note={
        <>
          since <Moment at={since} />
        </>
      }
      padded
    >
      <Facts
        facts={[
          ["origin", origin],
          ["fingerprint", <code key="hash">{hash}</code>],
          ["flow control", flowControl ? "on" : "off"],
        ]}
      />
      <div class="profiles">
        {profiles.map(({ name, filters, scorers, picker: picks }) => (
          <section key={name}>
            <h3>Profile {name}</h3>
            <ol class="chain">
              {filters.map((filter) => (
                <li key={`f ${filter}`}>
                  <span class="soft">filter</span> {filter}
                </li>
              ))}
              {scorers.map((scorer) => (
                <li key={`s ${scorer.name}`}>
                  <span class="soft">scorer</span> {scorer.name} <b>× {scorer.weight}</b>
                </li>
              ))}
              <li>
                <span class="soft">picker</span> {picks}
              </li>
            </ol>
          </section>
        ))}
      </div>
      <details>
        <summary>{counted(plugins.length, "plugin")} with their parameters</summary>
        <Table
          label="Plugins"
          columns={PLUGINS}
          rows={plugins}
          keyOf={({ name, type }) => `${name} ${type}`}
          empty=""
        />
      </details>
      {text !== null && (
        <details>
          <summary>The complete configuration, with the origin of each value</summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls can be reached by keyboard only when it takes the focus */}
          <pre tabIndex={0}>{text}</pre>
        </details>
      )}
    </Panel>
  );
}

const PLUGINS: readonly Column<PickerConfigFeed["plugins"][number]>[] = [
  { name: "name", isHead: true, cell: ({ name }) => name },
  { name: "type", cell: ({ type }) => type },
  { name: "parameters", className: "wrap", cell: ({ parameters }) => <code>{parameters}</code> },
];

const SETTINGS: readonly Column<SettingEntry>[] = [
  { name: "setting", isHead: true, sort: ({ name }) => name, cell: ({ name }) => name },
  { name: "value", className: "wrap", cell: ({ value }) => <code>{value}</code> },
  {
    ...{ name: "from", sort: ({ source }) => source },
    cell: ({ source, place }) => (
      <>
        <Badge tone={source === "default" ? "plain" : "ours"}>{source}</Badge> {place !== null && <code>{place}</code>}
      </>
    ),
  },
  {
    name: "change takes effect",
    cell: ({ change }) => (change === null ? "–" : change === "now" ? "at once" : "after a restart"),
  },
];

function Settings({ settings }: { settings: readonly SettingEntry[] }) {
  const [text, setText] = useState("");
  const [isAll, setIsAll] = useState(false);
  const shown = settings.filter(
    ({ name, source, value }) =>
      (isAll || (source !== "default" && value !== "null")) && name.toLowerCase().includes(text.toLowerCase()),
  );
  return (
    <Panel
      title="Settings"
      note={
        <span class="inline-tools">
          <Search label="Setting" placeholder="Name of a setting" value={text} onInput={setText} />
          <label class="field">
            <input type="checkbox" checked={isAll} onChange={(event) => setIsAll(event.currentTarget.checked)} />
            defaults, too
          </label>
        </span>
      }
    >
      <Table
        label="Settings"
        columns={SETTINGS}
        rows={shown}
        keyOf={({ name }) => name}
        empty={
          settings.length === 0 ? (
            <Empty what="The process lists no settings" />
          ) : (
            <Empty what="No setting is shown">
              {isAll ? "No name contains the text." : "All matching settings have their defaults."}
            </Empty>
          )
        }
      />
    </Panel>
  );
}
