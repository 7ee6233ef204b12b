import type { HeaderList } from "../../base/inference/headers.ts";

/** The longest text that is an address: IPv6 with a zone. */
const LONGEST = 64;

/**
 * Who a request counts for in the byte budget: the client's IP address, or the /64 network of an IPv6 address, which is
 * what one client has. "" = unknown.
 *
 * The last entry of `x-forwarded-for` is the one that the nearest proxy wrote: earlier entries, and all of them where no
 * proxy adds its own, are the client's word. The budget only orders clients by it, so a false address wins little.
 * @param known what the wire knows of the client, an IP address with or without a port; it wins over the headers
 */
export function clientAddressOf(headers: HeaderList, known: string | undefined): string {
  if (known !== undefined) return addressIn(known);
  const forwarded = headers.get("x-forwarded-for");
  return forwarded === undefined ? "" : addressIn(forwarded.slice(forwarded.lastIndexOf(",") + 1));
}

function addressIn(text: string): string {
  let address = text.trim();
  if (address.length > LONGEST) return "";
  const bracketed = /^\[([^\]]*)\](?::\d+)?$/.exec(address);
  if (bracketed !== null) address = bracketed[1]!;
  else if (/^[^:]*:\d+$/.test(address)) address = address.slice(0, address.indexOf(":"));
  if (!address.includes(":")) return address.toLowerCase();
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  return mapped === null ? `${network(address.toLowerCase())}::/64` : mapped[1]!;
}

/** The first four groups of an IPv6 address, written without leading zeros. */
function network(address: string): string {
  const [head = "", tail] = address.split("::");
  const groups = head === "" ? [] : head.split(":");
  const behind = tail ? tail.split(":").length : 0;
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - groups.length - behind);
  const all = [...groups, ...Array.from({ length: zeros }, () => "0"), ...(tail ? tail.split(":") : [])];
  return all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":");
}
