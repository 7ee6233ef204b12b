/**
 * The library for certificates of all kinds. While it loads, its dependency container calls two functions of a metadata polyfill, and
 * only for the constructor parameters of classes that have none. This code provides the two functions for that time, so that no
 * polyfill stays in the process.
 */
export async function loadX509(): Promise<typeof import("@peculiar/x509")> {
  const reflect: Record<string, unknown> = Reflect as unknown as Record<string, unknown>;
  const lent = ["getMetadata", "getOwnMetadata"].filter((name) => !(name in Reflect));
  for (const name of lent) reflect[name] = () => undefined;
  try {
    return await import("@peculiar/x509");
  } finally {
    for (const name of lent) delete reflect[name];
  }
}
