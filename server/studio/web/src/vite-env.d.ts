/// <reference types="vite/client" />

declare module "elkjs/lib/elk-api.js" {
  export default class Elk {
    constructor(options: { workerUrl: string });
    layout(graph: unknown): Promise<never>;
  }
}
