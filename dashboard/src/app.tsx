import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { FeedHello, FeedKind } from "../../src/wires/admin/feed/feed.ts";
import { routes } from "./feed/kind.ts";
import { endpointCounts } from "./feed/series.ts";
import type { Store } from "./feed/store.ts";
import { useStore } from "./feed/use-store.ts";
import { count, span } from "./format.ts";
import { Badge, Empty, Moment } from "./parts/basics.tsx";
import { linkTo, type Place, usePlace } from "./router.ts";
import { ConfigurationView } from "./views/configuration.tsx";
import { DecisionView } from "./views/decision.tsx";
import { DecisionsView } from "./views/decisions.tsx";
import { DemoView } from "./views/demo.tsx";
import { EndpointView } from "./views/endpoint.tsx";
import { EndpointsView } from "./views/endpoints.tsx";
import { OverviewView } from "./views/overview.tsx";
import { QueuesView, queuesTitle } from "./views/queues.tsx";
import { ReplicasView } from "./views/replicas.tsx";

interface ViewRow {
  readonly title: (hello: FeedHello | undefined) => string;
  readonly isThere: (hello: FeedHello) => boolean;
  readonly show: (place: Place) => ComponentChildren;
  /** A figure beside the name in the navigation. */
  readonly figure?: (store: Store) => { readonly text: string; readonly isBad: boolean } | undefined;
}

const named = (title: string) => () => title;

/** The views in the order of the navigation, by their names in addresses. */
const VIEWS: Readonly<Record<string, ViewRow>> = {
  demo: { title: named("Demo"), isThere: ({ demo }) => demo, show: () => <DemoView /> },
  overview: { title: named("Overview"), isThere: () => true, show: () => <OverviewView /> },
  endpoints: {
    title: named("Endpoints"),
    isThere: routes,
    show: ({ id }) => (id === "" ? <EndpointsView /> : <EndpointView id={id} />),
    figure({ series }) {
      const counts = endpointCounts(series);
      if (counts === undefined) return undefined;
      const { up, all } = counts;
      return { text: up < all ? `${count(all - up)} not up` : `${count(up)} up`, isBad: up < all };
    },
  },
  decisions: {
    title: named("Decisions"),
    isThere: routes,
    show: ({ id }) => (id === "" ? <DecisionsView /> : <DecisionView id={id} />),
  },
  queues: {
    title: queuesTitle,
    isThere: () => true,
    show: () => <QueuesView />,
    figure({ series }) {
      if (series.latest("broker") === 0) return { text: "broker away", isBad: true };
      const waiting = series.latest("waiting") ?? series.latest("backlog") ?? 0;
      return waiting > 0 ? { text: `${count(waiting)} waiting`, isBad: false } : undefined;
    },
  },
  replicas: { title: named("Replicas"), isThere: ({ replicas }) => replicas, show: () => <ReplicasView /> },
  configuration: {
    title: named("Configuration"),
    isThere: () => true,
    show: () => <ConfigurationView />,
    figure: ({ events }) => (isRefused(events) ? { text: "refused", isBad: true } : undefined),
  },
};

/** Whether the newest change of a file is refused: then the process does not run with what the file says. */
function isRefused(events: Store["events"]): boolean {
  const newest = new Map<string, boolean>();
  for (const { kind, subject } of events)
    if (/^(?:config|file)-(?:changed|refused)$/.test(kind)) newest.set(subject, kind.endsWith("refused"));
  return [...newest.values()].includes(true);
}

const KINDS: Readonly<Record<FeedKind, string>> = {
  gateway: "gateway",
  epp: "Endpoint Picker",
  dispatch: "Async Processor",
  "batch-server": "Batch API",
};

/** The frame of the page: who it shows, the way to the views, and whether what they show is live. */
export function App() {
  const store = useStore();
  const place = usePlace();
  const { hello, connection } = store;
  // The demo opens on what it is there for.
  const name = location.hash === "" && hello?.demo === true ? "demo" : place.view;
  const view = VIEWS[name];
  const main = useRef<HTMLElement>(null);
  const title = view?.title(hello) ?? "Not found";
  useEffect(() => {
    document.title = `${title} · ${hello?.name ?? ""} · Sluice`;
  }, [title, hello?.name]);
  // Another view begins at its top.
  useEffect(() => scrollTo(0, 0), [name, place.id]);
  const isStale = connection.state === "lost";
  return (
    <div class={isStale ? "shell stale" : "shell"}>
      <button type="button" class="button skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <header class="top">
        <a class="brand" href={linkTo("overview")}>
          <Mark />
          Sluice
        </a>
        {hello !== undefined && (
          <span class="who">
            <b>{hello.name}</b> · {KINDS[hello.kind]}
          </span>
        )}
        <span class="right">
          {hello !== undefined && hello.phase !== "serving" && <Badge tone="warn">{hello.phase}</Badge>}
          <a class="help" href="docs/operate/page.html" target="_blank" rel="noreferrer">
            Help
          </a>
          <ConnectionState store={store} />
        </span>
      </header>
      <nav class="rail" aria-label="Views">
        <ul>
          {Object.entries(VIEWS)
            .filter(([, { isThere }]) => hello !== undefined && isThere(hello))
            .map(([key, { title: text, figure }]) => {
              const shown = figure?.(store);
              return (
                <li key={key}>
                  <a href={linkTo(key)} aria-current={key === name ? "page" : undefined}>
                    {text(hello)}
                    {shown !== undefined && <span class={shown.isBad ? "count bad" : "count"}>{shown.text}</span>}
                  </a>
                </li>
              );
            })}
        </ul>
      </nav>
      <main class="main" id="main" tabIndex={-1} ref={main}>
        {connection.state === "lost" && (
          <div class="lost-banner" role="alert">
            <span>
              <b>Connection lost.</b> The page shows the state of <Moment at={connection.since} />: {connection.because}
              . The page reconnects automatically.
            </span>
          </div>
        )}
        {hello === undefined ? (
          connection.state !== "lost" && <Empty what="Connecting">The first figures come within a second.</Empty>
        ) : view === undefined || !view.isThere(hello) ? (
          <Empty what="This process has no such view">
            <a href={linkTo("overview")}>Go to the overview</a>
          </Empty>
        ) : (
          view.show(place)
        )}
      </main>
    </div>
  );
}

function ConnectionState({ store: { connection, hello } }: { store: Store }) {
  if (connection.state === "lost")
    return (
      <span class="connection lost" role="status">
        lost since <Moment at={connection.since} />
      </span>
    );
  const text = connection.state === "live" ? "live" : "connecting";
  const since = hello === undefined ? undefined : `${hello.name} runs for ${span(Date.now() - hello.startedAt)}`;
  return (
    <span class={`connection ${text}`} role="status" title={since}>
      {text}
    </span>
  );
}

function Mark() {
  return (
    <svg viewBox="0 0 16 16" aria-hidden="true">
      <rect width="16" height="16" rx="3.5" fill="var(--accent)" />
      <path d="M4 4.5h8M4 8h5M4 11.5h8" stroke="var(--paper)" stroke-width="1.7" stroke-linecap="round" />
    </svg>
  );
}
