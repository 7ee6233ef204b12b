import { flagsHelp, flagsMarkdown, legacyMarkdown } from "../common/flag-text.ts";
import { DISPATCH_FLAGS } from "./dispatch-flag-table.ts";
import { LEGACY_FLAGS } from "./dispatch-legacy-table.ts";

/** The text of `sluice dispatch --help`. */
export function dispatchHelp(): string {
  return [
    "Usage: sluice dispatch --config FILE [flags]\n",
    "The Async Processor: takes requests from persistent queues, sends them to a gateway when it has room, and writes one\n",
    "result for each. examples/dispatch.yaml is a file to start with.\n\n",
    "Flags are written -name value, --name value or --name=value.\n\n",
    flagsHelp(DISPATCH_FLAGS),
    "\nThe reference's older flags (--message-queue-impl, --redis.*, --redis.ss.*, --pubsub.*) work, with a warning; they are\n",
    "listed in docs/reference/flags.md.\n",
  ].join("");
}

/** The flags of `sluice dispatch` for docs/reference/flags.md, below a heading of the second level. */
export function dispatchReference(): string {
  return `## \`sluice dispatch\`

Written \`-name value\`, \`--name value\` or \`--name=value\`; a bare boolean is true. Durations are Go's (\`50ms\`, \`1m30s\`). In the
file of \`--config\` the same names are keys, without dashes before them; \`transport-config\`, \`pool-config\`,
\`request-merge-policy-config\` and \`transform-config\` hold there what the files of the reference hold, and \`plugins\` is a list of
modules. The command line wins over the file, the file over the environment. "Since" is the release of the reference that
introduced the flag.

An unknown or malformed flag ends with status 2, a combination that is not allowed or anything wrong with a file with 1.

${flagsMarkdown(DISPATCH_FLAGS)}
### Older flags

They work when neither \`--transport\` nor \`--transport-config\` nor \`--transport-config-file\` is given, with a warning, and are
ignored with another one when any is.

${legacyMarkdown(LEGACY_FLAGS)}
### Environment of \`sluice dispatch\`

| Variable | Meaning |
|---|---|
| \`REDIS_URL\` | The Redis server, when the configuration of the transport has no \`url\`. |
| \`LOG_LEVEL\` | trace, debug, info, warn, error or a number as of \`-v\`, when neither \`-v\` nor \`--zap-log-level\` is given. |
| \`OTEL_EXPORTER_OTLP_ENDPOINT\` | Where traces go; without it there are none. The other \`OTEL_\` variables are the standard's. |
`;
}
