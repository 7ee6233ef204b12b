import axe from "axe-core";
import type { Page } from "playwright-core";

/** Takes axe into a page. Its policy must be bypassed. */
export async function takeAxe(page: Page): Promise<void> {
  await page.evaluate(axe.source);
}

/** What axe finds in a page that has taken it. @param rules all rules when undefined */
export function violations(page: Page, rules?: readonly string[]): Promise<string[]> {
  return page.evaluate(`(async () => {
    const runOnly = ${JSON.stringify(rules) ?? "undefined"};
    const { violations } = await axe.run(document, { resultTypes: ["violations"], runOnly });
    return violations.map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html.slice(0, 160)).join(" | "));
  })()`);
}
