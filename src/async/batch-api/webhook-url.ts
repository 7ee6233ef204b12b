/** Why a text is not the address of a webhook; undefined = it is one. No text repeats it: addresses of webhooks may hold secrets. */
export function webhookUrlProblem(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:")
    return "it must be an address such as https://example.com/hooks";
  if (url.username !== "" || url.password !== "")
    return "it must have no user name and no password: a signature proves the sender";
  return undefined;
}
