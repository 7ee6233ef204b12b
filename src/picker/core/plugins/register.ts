/** For `node --import`: modules of users find `sluice/plugin` without an installed package, for example in their own tests. */
import { resolveOurs } from "./plugin-import.ts";

resolveOurs();
