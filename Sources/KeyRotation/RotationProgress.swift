/// How far a rotation is.
public struct RotationProgress: Hashable, Sendable {
    /// What is being done.
    public enum Phase: String, Hashable, Sendable, CaseIterable {
        /// A backup is made.
        case backup
        /// The store is looked at.
        case preflight
        /// Pages are copied and re-encrypted.
        case copying
        /// The copy is read back and compared.
        case verifying
        /// What was written meanwhile is carried over.
        case catchingUp
        /// The other processes are asked to pause, and the copy takes the database's place.
        case switching
        /// It is done.
        case completed
    }

    public var phase: Phase
    /// Pages of this phase that are done.
    public var pagesDone = 0
    /// Pages of this phase; 0 where it has none, or while they are not known.
    public var pagesTotal = 0
    /// How fast the phase goes; 0 while that is not known.
    public var bytesPerSecond = 0
    /// How long the copy and its verification will still take; nil where that is not known.
    public var remaining: Duration?

    init(_ phase: Phase) { self.phase = phase }
}
