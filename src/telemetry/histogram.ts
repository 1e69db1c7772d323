/**
 * A histogram as Prometheus has it, for what is observed several times in every call: the library's own checks and hashes the names of the labels at
 * each observation, which costs ten times the counting.
 */
import type { Metric, Registry } from 'prom-client';

export interface HistogramOptions {
  name: string;
  help: string;
  labelNames: readonly string[];
  /** Upper bounds, ascending. */
  buckets: readonly number[];
}

interface Series { labels: Record<string, string>; /** By bound, not cumulative; the last is beyond all bounds. */ counts: number[]; sum: number; count: number }

export class Histogram {
  private readonly series = new Map<string, Series>();

  constructor(private readonly options: HistogramOptions, registry: Registry) {
    // its type knows the library's own metrics alone; what it asks of one is this
    registry.registerMetric({ name: options.name, get: async () => this.get() } as unknown as Metric);
  }

  /** @param labels the values, in the order of `labelNames`; there must be few of them */
  observe(labels: readonly string[], value: number): void {
    const key = labels.join('\n');
    const series = this.series.get(key) ?? this.begin(key, labels);
    const { buckets } = this.options;
    let n = 0;
    while (n < buckets.length && value > (buckets[n] as number)) n++;
    series.counts[n] = (series.counts[n] as number) + 1;
    series.sum += value;
    series.count += 1;
  }

  private begin(key: string, labels: readonly string[]): Series {
    const { labelNames, buckets } = this.options;
    const series: Series = { labels: Object.fromEntries(labelNames.map((name, n) => [name, labels[n] as string])), counts: Array<number>(buckets.length + 1).fill(0), sum: 0, count: 0 };
    this.series.set(key, series);
    return series;
  }

  private get(): object {
    const { name, help, buckets } = this.options;
    const values = [...this.series.values()].flatMap(({ labels, counts, sum, count }) => {
      const cumulative = counts.map((_, n) => counts.slice(0, n + 1).reduce((total, each) => total + each, 0));
      const bounded = [...buckets, '+Inf'].map((le, n) => ({ metricName: `${name}_bucket`, labels: { le, ...labels }, value: cumulative[n] as number }));
      return [...bounded, { metricName: `${name}_sum`, labels, value: sum }, { metricName: `${name}_count`, labels, value: count }];
    });
    return { name, help, type: 'histogram', values, aggregator: 'sum' };
  }
}
