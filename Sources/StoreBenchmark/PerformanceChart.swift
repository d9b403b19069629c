import Foundation

/// The ratios as bars, each with a mark for its goal: an SVG for light and dark backgrounds.
///
/// Figures have columns of their own, so that no bar or mark covers them. A bar that is longer than the axis ends in a
/// break and an arrow.
struct PerformanceChart {
    let measurements: [Measurement]

    private static let rowHeight = 24.0
    private static let headHeight = 34.0
    private static let ratioEnd = 474.0
    private static let goalEnd = 524.0
    private static let verdictStart = 532.0
    private static let axisStart = 590.0
    private static let axisWidth = 400.0
    private static let width = 1020.0
    private static let top = 64.0
    /// The ratio at the end of the axis, at most. A longer one would leave no width for the differences between the
    /// others.
    private static let longestAxis = 4.0

    /// The ratio at the end of the axis.
    private var axisEnd: Double {
        min(Self.longestAxis, max(2, measurements.map { ($0.ratio * 2).rounded(.up) / 2 }.max() ?? 2))
    }

    /// The place of a ratio, from the left.
    private func x(_ ratio: Double) -> Double {
        Self.axisStart + min(ratio, axisEnd) / axisEnd * Self.axisWidth
    }

    /// The measurements by the sections of the work, in their order.
    private var sections: [(title: String, rows: [Measurement])] {
        var sections: [(title: String, rows: [Measurement])] = []
        for measurement in measurements {
            if sections.last?.title != measurement.section { sections.append((measurement.section, [])) }
            sections[sections.count - 1].rows.append(measurement)
        }
        return sections
    }

    var svg: String {
        let rows = Double(measurements.count) * Self.rowHeight + Double(sections.count) * Self.headHeight
        let bottom = Self.top + rows
        var lines = [
            """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(number(Self.width)) \(number(bottom + 30))" \
            role="img" aria-label="Time of the library as a multiple of plain C">
            """,
            Self.style,
            text("Time as a multiple of the comparison: shorter is faster, and 1.0 takes the same time.", x: 8, y: 20),
            text("ratio", x: Self.ratioEnd, y: 46, "note end"), text("goal", x: Self.goalEnd, y: 46, "note end"),
            """
            <path class="goal" d="M\(number(Self.verdictStart + 6)) 36 v13"/>
            """,
            text("mark of the goal; an arrow: longer than the axis", x: Self.verdictStart + 14, y: 46, "note"),
        ]
        lines += axis(bottom)
        var y = Self.top
        for section in sections {
            lines.append(text(section.title, x: 8, y: y + 23, "head"))
            y += Self.headHeight
            for measurement in section.rows {
                lines += row(of: measurement, y: y)
                y += Self.rowHeight
            }
        }
        return (lines + ["</svg>"]).joined(separator: "\n") + "\n"
    }

    private func axis(_ bottom: Double) -> [String] {
        stride(from: 0.0, through: axisEnd, by: 0.5).flatMap { step in
            [
                """
                <line class="\(step == 1 ? "one" : "grid")" x1="\(number(x(step)))" x2="\(number(x(step)))" \
                y1="\(number(Self.top - 4))" y2="\(number(bottom + 4))"/>
                """,
                text(String(format: "%.1f", step), x: x(step), y: bottom + 20, "note middle"),
            ]
        }
    }

    private func row(of measurement: Measurement, y: Double) -> [String] {
        let middle = y + Self.rowHeight / 2
        let end = x(measurement.ratio)
        let kind = measurement.goal == nil ? "plain" : measurement.isMet ? "met" : "missed"
        var lines = [
            text(escaped(measurement.work), x: 8, y: middle + 4, "name"),
            text(String(format: "%.2f", measurement.ratio), x: Self.ratioEnd, y: middle + 4, "value end"),
            """
            <rect class="\(kind)" x="\(number(Self.axisStart))" y="\(number(middle - 7))" \
            width="\(number(end - Self.axisStart))" height="14"/>
            """,
        ]
        if measurement.ratio > axisEnd { lines += breakOfBar(kind, end: end, middle: middle) }
        if let goal = measurement.goal {
            lines.append(text(String(format: "%.2f", goal), x: Self.goalEnd, y: middle + 4, "note end"))
            lines.append(
                text(measurement.isMet ? "met" : "missed", x: Self.verdictStart, y: middle + 4, "text-" + kind))
            lines.append("<path class=\"goal\" d=\"M\(number(x(goal))) \(number(middle - 10)) v20\"/>")
        }
        return lines
    }

    /// Shows that a bar goes on beyond the axis: two gaps across it, and an arrow at its end.
    private func breakOfBar(_ kind: String, end: Double, middle: Double) -> [String] {
        let gaps = [24.0, 16.0].map {
            "<path class=\"gap\" d=\"M\(number(end - $0)) \(number(middle + 9)) l6 -18\"/>"
        }
        let arrow =
            "<path class=\"\(kind)\" d=\"M\(number(end)) \(number(middle - 11)) l14 11 l-14 11 z\"/>"
        return gaps + [arrow]
    }

    private static let style = """
        <style>
        text { font: 12px system-ui, sans-serif; fill: #1f2328 }
        .note { fill: #59636e } .value { font-weight: 600 } .head { font-weight: 700 }
        .end { text-anchor: end } .middle { text-anchor: middle }
        .grid { stroke: #d1d9e0 } .one { stroke: #59636e; stroke-dasharray: 3 3 }
        .goal { stroke: #1f2328; stroke-width: 2.5; fill: none }
        .gap { stroke: #ffffff; stroke-width: 3; fill: none }
        .met { fill: #4593c7 } .missed { fill: #d4813a } .plain { fill: #a3adb8 }
        .text-met { fill: #2f6f9c } .text-missed { fill: #a85a17; font-weight: 600 }
        @media (prefers-color-scheme: dark) {
        text { fill: #f0f6fc } .note { fill: #9198a1 }
        .grid { stroke: #3d444d } .one { stroke: #9198a1 } .goal { stroke: #f0f6fc } .gap { stroke: #0d1117 }
        .text-met { fill: #79b8e4 } .text-missed { fill: #f0a35e }
        }
        </style>
        """

    private func text(_ text: String, x: Double, y: Double, _ kind: String = "name") -> String {
        "<text class=\"\(kind)\" x=\"\(number(x))\" y=\"\(number(y))\">\(text)</text>"
    }

    private func number(_ value: Double) -> String { String(format: "%g", (value * 10).rounded() / 10) }

    private func escaped(_ text: String) -> String {
        text.replacingOccurrences(of: "&", with: "&amp;").replacingOccurrences(of: "<", with: "&lt;")
    }
}
