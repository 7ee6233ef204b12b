import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { html, scriptData } from "./html.ts";

/** What a browser makes of escaped text. */
const unescaped = (text: string): string =>
  text
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&");

describe("HTML from templates", () => {
  it("escapes what is put in, and not what is HTML already", () => {
    expect(html`<p title="${'"&'}">${"<b>"}${html`<i>${"'"}</i>`}${7}</p>`.html).toBe(
      '<p title="&quot;&amp;">&lt;b&gt;<i>&#39;</i>7</p>',
    );
    expect(html`${[html`<i></i>`, html`<b></b>`]}`.html).toBe("<i></i><b></b>");
  });

  it("lets no text out of its place, and every text back", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."<>&\"'a;#39ltg") }), (text) => {
        const out = html`${text}`.html;
        return !/[<>"']/.test(out) && unescaped(out) === text;
      }),
    );
  });

  it("puts any JSON into a script element without ending it", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const out = scriptData(value).html;
        expect(out).not.toContain("<");
        expect(JSON.parse(out)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
    expect(scriptData(["</script><!--"]).html).toBe(String.raw`["\u003c/script>\u003c!--"]`);
    expect(scriptData([Number.NaN]).html).toBe("[null]");
  });
});
