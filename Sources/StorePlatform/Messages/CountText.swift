/// Numbers of things in messages: one page, two pages.
package enum CountText {
    /// A count with its noun, as `1 page` and `2 pages`.
    ///
    /// - Parameters:
    ///   - noun: The name of one of them.
    ///   - plural: The name of several of them; nil where an "s" makes it.
    package static func text(_ count: some BinaryInteger, _ noun: String, _ plural: String? = nil) -> String {
        "\(count) \(count == 1 ? noun : plural ?? noun + "s")"
    }

    /// Names in one line, as `a, b and 3 more`.
    ///
    /// - Parameter limit: The most names that are shown.
    package static func list(_ names: [String], limit: Int = 20) -> String {
        let shown = names.prefix(limit).joined(separator: ", ")
        return names.count > limit ? "\(shown) and \(names.count - limit) more" : shown
    }

    /// A duration in seconds, as `1 second`, `2.5 seconds`.
    package static func seconds(_ duration: Duration) -> String {
        let tenths = Int((duration / .milliseconds(100)).rounded())
        if tenths % 10 == 0 { return text(tenths / 10, "second") }
        return "\(tenths / 10).\(tenths % 10) seconds"
    }

    /// A duration in a table, as `2.5 s`.
    package static func shortSeconds(_ duration: Duration, digits: Int = 1) -> String {
        decimal(duration / .seconds(1), digits: digits) + " s"
    }

    /// An amount of bytes, as `300.0 kB` or `1.5 MB`: powers of 1,000.
    package static func bytes(_ count: Double) -> String {
        count >= 1e6 ? "\(decimal(count / 1e6, digits: 1)) MB" : "\(decimal(count / 1e3, digits: 1)) kB"
    }

    /// A speed, as `312 MB/s`: powers of 1,000.
    package static func speed(bytesPerSecond: Double) -> String { decimal(bytesPerSecond / 1e6, digits: 0) + " MB/s" }

    /// A number that is not negative, with a fixed count of digits after the point.
    package static func decimal(_ value: Double, digits: Int) -> String {
        let scale = (0..<digits).reduce(1) { power, _ in power * 10 }
        let scaled = Int((min(max(0, value), 1e12) * Double(scale)).rounded())
        guard digits > 0 else { return "\(scaled)" }
        let rest = String(scaled % scale)
        return "\(scaled / scale)." + String(repeating: "0", count: digits - rest.count) + rest
    }
}
