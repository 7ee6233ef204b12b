import { defineDecider } from "../../../../base/plugin/define.ts";
import { mediaParts } from "../../tokens/media-parts.ts";

/** scheduling 3.7.1; what counts as a part, and what goes unseen, is `mediaParts`' to say: bodies that are not JSON have none. */
export const alwaysDisaggMultimodalDecider = defineDecider({
  type: "always-disagg-multimodal-decider",
  describe: "In favour of a stage for every request with images, sounds or videos in its prompt.",
  create: () => ({ decide: ({ request }) => mediaParts(request).length > 0 }),
});
