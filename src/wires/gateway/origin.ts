/**
 * An origin as browsers send it.
 * @returns undefined when the text is no origin: with a path, without a scheme, not HTTP
 */
export function originOf(text: string): string | undefined {
  if (text === "*") return text;
  const url = URL.parse(text);
  const origin = text.toLowerCase().replace(/\/$/, "");
  return url !== null && /^https?:$/.test(url.protocol) && url.origin === origin ? origin : undefined;
}
