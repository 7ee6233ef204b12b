import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Random, SeededRandom, uuidFrom } from "../../../base/clock/random.ts";
import { formData } from "./gcs-uri-multipart.ts";

/** What another implementation reads. */
async function parsed({ body, contentType }: ReturnType<typeof formData>): Promise<[string, unknown][]> {
  const response = new Response(Buffer.from(body), { headers: { "content-type": contentType } });
  return [...(await response.formData())];
}

describe("formData", () => {
  it("is read back as it was, in order", async () => {
    const value = fc.string({ unit: fc.oneof(fc.constantFrom("\r", "\n", "-", '"', "ä", "😀"), fc.string()) });
    const name = fc.string({ unit: fc.constantFrom("a", "B", "_", "-", " ", "ä", ".", "[", ";", "="), minLength: 1 });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(name, value)), fc.nat(), async (fields, seed) => {
        expect(await parsed(formData(fields, new SeededRandom(seed)))).toEqual(fields);
      }),
      { numRuns: 50 },
    );
  });

  it("escapes names that would break the head of a part", async () => {
    const { body } = formData([['a"\r\nx: 1', "v"]], new SeededRandom(1));
    expect(Buffer.from(body).toString()).toContain('name="a%22%0D%0Ax: 1"\r\n\r\nv');
  });

  it("draws another boundary when a field holds the first", async () => {
    const first = uuidFrom(new SeededRandom(5));
    const random: Random = new SeededRandom(5);
    const fields: [string, string][] = [
      ["url", "u"],
      ["text", `--${first}--\r\n--${first}\r\ncontent-disposition: form-data; name="url"\r\n\r\nevil`],
    ];
    const made = formData(fields, random);
    expect(made.contentType).not.toContain(first);
    expect(await parsed(made)).toEqual(fields);
  });
});
