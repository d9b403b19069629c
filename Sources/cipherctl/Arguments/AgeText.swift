/// Lengths of time as people write them in options: `90d`, `12h`, `2w`.
enum AgeText {
    private static let units: [Character: Int] = [
        "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000,
    ]
    private static let digits = 1...6

    /// Whole seconds; nil when the text is no such length.
    static func seconds(_ text: String) -> UInt64? {
        guard let last = text.last, let unit = units[last] else { return nil }
        let number = text.dropLast()
        guard digits.contains(number.count), number.allSatisfy({ $0.isASCII && $0.isNumber }), let count = Int(number)
        else { return nil }
        return UInt64(count * unit)
    }

    /// The largest unit of which there are two or more.
    static func text(_ seconds: UInt64) -> String {
        let names = [(86_400, "days"), (3600, "hours"), (60, "minutes")] as [(UInt64, String)]
        for (unit, name) in names where seconds >= 2 * unit { return "\(seconds / unit) \(name)" }
        return "\(seconds) seconds"
    }
}
