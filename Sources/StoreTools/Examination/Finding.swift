/// A result of the examination of a store.
public struct Finding: Hashable, Sendable {
    /// How much it matters.
    public enum Severity: String, Hashable, Sendable, CaseIterable {
        /// The store cannot be used, or data is in danger.
        case problem
        /// It works, but something should be done.
        case risk
        /// Worth knowing; no action is needed.
        case note
    }

    /// How much it matters.
    public let severity: Severity
    /// A stable name for programs.
    public let name: String
    /// The finding.
    public let what: String
    /// The remedy; nil where no action is needed.
    public let remedy: String?

    package init(_ severity: Severity, _ name: String, _ what: String, remedy: String? = nil) {
        self.severity = severity
        self.name = name
        self.what = what
        self.remedy = remedy
    }

    /// In one sentence or two.
    public var text: String {
        guard let remedy else { return what }
        // The text of an error is a sentence; a finding continues with the remedy.
        return what + (what.hasSuffix(".") ? " " : ": ") + remedy
    }

    /// Whether it needs attention: all but notes do.
    public var needsAttention: Bool { severity != .note }
}
