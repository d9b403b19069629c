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
}
