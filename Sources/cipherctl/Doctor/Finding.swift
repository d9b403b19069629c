/// Something that a look at a store has found.
struct Finding: Equatable {
    /// How much it matters.
    enum Severity: String, CaseIterable {
        /// The store cannot be used, or data is in danger.
        case problem
        /// It works, but something should be done.
        case risk
        /// Worth knowing; nothing has to be done.
        case note
    }

    let severity: Severity
    /// A stable name for programs.
    let name: String
    let what: String
    /// What to do; nil where there is nothing to do.
    let remedy: String?

    init(_ severity: Severity, _ name: String, _ what: String, remedy: String? = nil) {
        self.severity = severity
        self.name = name
        self.what = what
        self.remedy = remedy
    }

    /// In one sentence or two.
    var text: String {
        guard let remedy else { return what }
        // What an error says is a sentence; what is found out here goes on with what to do.
        return what + (what.hasSuffix(".") ? " " : ": ") + remedy
    }

    var needsAttention: Bool { severity != .note }

    var json: JSON {
        .object([
            "severity": .string(severity.rawValue), "code": .string(name), "what": .string(what),
            "remedy": .optional(remedy, JSON.string),
        ])
    }

    var lines: [String] {
        [Help.padded(severity.rawValue, to: 8) + " \(what)"] + (remedy.map { ["         -> \($0)"] } ?? [])
    }
}
