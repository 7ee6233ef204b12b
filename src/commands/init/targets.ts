import { SluiceError } from "../../base/inference/errors.ts";
import { parseTarget } from "../../lab/check/options.ts";
import { expandHosts } from "../../pool/discovery/host-list.ts";

/** The most servers of one call: each is asked, and a person reads the answer. */
export const MAX_SERVERS = 256;

/**
 * The origins that the arguments and `--from` name, each once.
 * @throws SluiceError FLAG_VALUE
 */
export function targets(urls: readonly string[], from: readonly string[]): string[] {
  const origins = [...new Set([...urls.map(withPort), ...from.flatMap(rangeOf)])];
  if (origins.length > MAX_SERVERS)
    throw new SluiceError("FLAG_VALUE", `${origins.length} servers are given; give at most ${MAX_SERVERS}`);
  const secure = origins.filter((origin) => origin.startsWith("https:"));
  if (secure.length > 0 && secure.length < origins.length)
    throw new SluiceError(
      "FLAG_VALUE",
      `${secure[0]} has TLS and ${origins.find((origin) => !secure.includes(origin))} has no TLS; give servers of one kind, then add the others to the file with \`scheme\``,
    );
  return origins;
}

/** @throws SluiceError FLAG_VALUE */
function withPort(text: string): string {
  const origin = parseTarget(text);
  const url = new URL(origin);
  return url.port === "" ? `${origin}:${url.protocol === "https:" ? 443 : 80}` : origin;
}

/** The origins of `hosts:port` or `hosts:first-last`. @throws SluiceError FLAG_VALUE */
function rangeOf(text: string): string[] {
  const match = /^(.+):(\d{1,5})(?:-(\d{1,5}))?$/.exec(text.trim());
  const first = Number(match?.[2]);
  const last = Number(match?.[3] ?? match?.[2]);
  const isRange = match !== null && first >= 1 && last <= 65535 && first <= last;
  if (!isRange || match[1]!.includes("://"))
    throw new SluiceError(
      "FLAG_VALUE",
      `--from is ${shown(text)}; write hosts:ports, for example gpu[01-04]:8000-8003`,
    );
  // The host list must not be cut at the colons of an IPv6 address.
  const list = match[1]!.startsWith("[") ? { hosts: [match[1]!] } : expandHosts(match[1]!);
  if ("problem" in list) throw new SluiceError("FLAG_VALUE", `--from is ${shown(text)}: ${list.problem}`);
  const count = list.hosts.length * (last - first + 1);
  if (count > MAX_SERVERS)
    throw new SluiceError("FLAG_VALUE", `--from ${shown(text)} names ${count} servers; give at most ${MAX_SERVERS}`);
  const ports = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  return list.hosts.flatMap((host) => ports.map((port) => withPort(`http://${host}:${port}`)));
}

function shown(text: string): string {
  return text.includes("@") ? "a hidden value with @" : JSON.stringify(text.slice(0, 200));
}
