import type { SocketAddress } from "./options.ts";
import type { Tree } from "./tree.ts";

/** A message of Envoy's API with its type, as `typed_config` wants it. @param type without the `envoy.` in front */
export function typed(type: string, members: { readonly [key: string]: Tree | undefined } = {}): Tree {
  return { "@type": `type.googleapis.com/envoy.${type}`, ...members };
}

/** An address as Envoy's API writes it. */
export function address({ host, port }: SocketAddress): Tree {
  return { socket_address: { address: host, port_value: port } };
}
