import Foundation

/// The ratios as bars, each with the mark of its goal: an SVG that reads on light and on dark ground.
struct PerformanceChart {
    let measurements: [Measurement]

    private static let rowHeight = 30.0
    private static let labelWidth = 400.0
    private static let barWidth = 360.0
    private static let width = 900.0
    private static let top = 40.0
    /// The ratio at the right end of the longest bar; longer ones are cut and say so by their number.
    private static let longest = 2.0

    /// Where a ratio stands, from the left.
    private func x(_ ratio: Double) -> Double {
        Self.labelWidth + min(ratio, Self.longest) / Self.longest * Self.barWidth
    }

    var svg: String {
        let height = Self.top + Double(measurements.count) * Self.rowHeight + 20
        var lines = [
            """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(number(Self.width)) \(number(height))" \
            role="img" aria-label="Time of the library as a multiple of plain C">
            """,
            Self.style,
            text("time as a multiple of plain C; the short black or white mark is the goal", x: 8, y: 20, "note"),
        ]
        for step in stride(from: 0.0, through: Self.longest, by: 0.5) {
            lines.append(line(x: x(step), from: Self.top - 6, to: height - 14, step == 1 ? "one" : "grid"))
            lines.append(text(String(format: "%.1f", step), x: x(step) - 9, y: height - 2, "note"))
        }
        for (index, measurement) in measurements.enumerated() {
            lines += bar(of: measurement, y: Self.top + Double(index) * Self.rowHeight)
        }
        return (lines + ["</svg>"]).joined(separator: "\n") + "\n"
    }

    private func bar(of measurement: Measurement, y: Double) -> [String] {
        let end = x(measurement.ratio)
        let verdict = measurement.goal == nil ? "" : measurement.isMet ? ", met" : ", missed"
        let goal = measurement.goal.map { String(format: " (goal %.2f%@)", $0, verdict) } ?? ""
        var lines = [
            text(escaped(measurement.work), x: 8, y: y + 16, "name"),
            """
            <rect class="\(measurement.isMet ? "met" : "missed")" x="\(number(Self.labelWidth))" y="\(number(y + 4))" \
            width="\(number(end - Self.labelWidth))" height="16" rx="2"/>
            """,
            text(String(format: "%.2f", measurement.ratio) + goal, x: end + 10, y: y + 16, "value"),
        ]
        if let goal = measurement.goal { lines.append(line(x: x(goal), from: y, to: y + 24, "goal")) }
        return lines
    }

    private static let style = """
        <style>
        text { font: 12px system-ui, sans-serif; fill: #1f2328 }
        .note { fill: #59636e } .value { font-weight: 600 }
        .grid { stroke: #d1d9e0 } .one { stroke: #59636e; stroke-dasharray: 3 3 }
        .goal { stroke: #1f2328; stroke-width: 2.5 }
        .met { fill: #4593c7 } .missed { fill: #d4813a }
        @media (prefers-color-scheme: dark) {
        text { fill: #f0f6fc } .note { fill: #9198a1 }
        .grid { stroke: #3d444d } .one { stroke: #9198a1 } .goal { stroke: #f0f6fc }
        }
        </style>
        """

    private func text(_ text: String, x: Double, y: Double, _ kind: String) -> String {
        "<text class=\"\(kind)\" x=\"\(number(x))\" y=\"\(number(y))\">\(text)</text>"
    }

    private func line(x: Double, from top: Double, to bottom: Double, _ kind: String) -> String {
        """
        <line class="\(kind)" x1="\(number(x))" x2="\(number(x))" y1="\(number(top))" y2="\(number(bottom))"/>
        """
    }

    private func number(_ value: Double) -> String { String(format: "%g", (value * 10).rounded() / 10) }

    private func escaped(_ text: String) -> String {
        text.replacingOccurrences(of: "&", with: "&amp;").replacingOccurrences(of: "<", with: "&lt;")
    }
}
