package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// datasource is what the variable of that name chooses.
var datasource = common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}

// build makes the dashboard.
func build() (dashboard.Dashboard, error) {
	b := dashboard.NewDashboardBuilder("RDMA devices").
		Uid("dra-driver-rdma").
		Description("Traffic, errors, health and owners of RDMA devices, and the DRA driver that gives them out. Generated: see tools/dashboard.").
		Tags([]string{"rdma", "dra", "kubernetes"}).
		Time("now-1h", "now").Refresh("30s").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		WithVariable(choice("instance", "Node", "label_values(rdma_driver_registered, instance)")).
		WithVariable(choice("device", "Device", `label_values(rdma_device_info{instance=~"$instance"}, device)`))
	for _, r := range rows {
		b.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			b.WithPanel(p.builder())
		}
	}
	return b.Build()
}

// choice is a variable with the values of a label, all of them by default.
func choice(name, label, query string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(datasource).
		Query(dashboard.StringOrMap{String: &query}).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{
			Selected: new(true), Text: dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

func (p panel) builder() cog.Builder[dashboard.Panel] {
	switch p.kind {
	case now:
		return stat.NewPanelBuilder().Title(p.title).Description(p.help).Datasource(datasource).Unit(p.unit).
			Span(p.width).Height(4).Targets(p.targets()).Thresholds(p.thresholds()).
			ColorMode(common.BigValueColorModeValue).GraphMode(common.BigValueGraphModeNone)
	case list:
		return table.NewPanelBuilder().Title(p.title).Description(p.help).Datasource(datasource).
			Span(p.width).Height(8).Targets(p.targets()).
			WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
				"excludeByName": map[string]bool{"Time": true, "Value": true, "__name__": true, "job": true},
			}})
	}
	return timeseries.NewPanelBuilder().Title(p.title).Description(p.help).Datasource(datasource).Unit(p.unit).Min(0).
		Span(p.width).Height(8).Targets(p.targets()).FillOpacity(10).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeTable).Placement(common.LegendPlacementBottom).
			Calcs([]string{"lastNotNull", "max"}).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
}

func (p panel) targets() []cog.Builder[variants.Dataquery] {
	var out []cog.Builder[variants.Dataquery]
	for i, q := range p.queries {
		b := prometheus.NewDataqueryBuilder().Expr(q.expr).RefId(string(rune('A' + i)))
		switch {
		case p.kind == lines:
			b.Range().LegendFormat(q.legend)
		case p.kind == now:
			b.Instant().LegendFormat(q.legend)
		default:
			b.Instant().Format(prometheus.PromQueryFormatTable)
		}
		out = append(out, b)
	}
	return out
}

func (p panel) thresholds() *dashboard.ThresholdsConfigBuilder {
	steps := []dashboard.Threshold{{Color: "green"}}
	if p.bad > 0 {
		steps = append(steps, dashboard.Threshold{Color: "red", Value: &p.bad})
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}
