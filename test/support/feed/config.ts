/** A made-up configuration, in the shapes of src/wires/admin/feed/. */
import type { ConfigFeed } from "../../../src/wires/admin/feed/config.ts";
import type { FeedKind } from "../../../src/wires/admin/feed/feed.ts";
import { SCORERS } from "./decisions.ts";

export function configOf(kind: FeedKind): ConfigFeed {
  return {
    ...{
      kind,
      version: "0.1.0",
      node: "26.10.0",
      startedAt: Date.now() - 3_700_000,
      pid: 4242,
      args: ["gateway", "--config", "gateway.yaml"],
    },
    settings: [
      { name: "admin", value: '"127.0.0.1:9090"', source: "default", place: null, change: null },
      { name: "listen", value: '"0.0.0.0:8080"', source: "file", place: "gateway.yaml:3:9", change: "restart" },
      { name: "limits", value: '"limits.yaml"', source: "flag", place: "--limits", change: null },
    ],
    picker: {
      ...{
        hash: "3f9ac2b1d004",
        origin: "config.yaml",
        text: "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n",
        since: Date.now() - 600_000,
      },
      plugins: SCORERS.map(({ name }) => ({ name, type: name, parameters: "{}" })),
      profiles: [{ name: "default", filters: ["label-selector-filter"], scorers: SCORERS, picker: "max-score-picker" }],
      flowControl: true,
    },
    warnings: ["queue-scorer: the parameter threshold is deprecated."],
    reloads: [
      {
        at: Date.now() - 600_000,
        what: "config.yaml",
        result: "applied",
        problems: "",
        difference: ["- queue-scorer weight: 2", "+ queue-scorer weight: 3"],
      },
    ],
    links: [
      { text: "metrics", href: "metrics" },
      { text: "docs", href: "https://example.com/" },
    ],
  };
}
