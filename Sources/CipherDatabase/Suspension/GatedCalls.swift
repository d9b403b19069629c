/// The calls of a connection's own thread into SQLite, as its gate sees them.
final class GatedCalls {
    /// Keeps a suspending thread out of calls into SQLite.
    let gate: ConnectionGate
    /// Whether the connection may hold locks that other processes wait for.
    let usesGate: Bool
    /// Whether reading takes such locks: without WAL it does.
    // Unchecked, as the next ones: one thread at a time uses them, with each statement.
    @exclusivity(unchecked) var gatesReads = false
    /// Calls into SQLite, one inside the other.
    @exclusivity(unchecked) var callDepth = 0
    /// Where the gate rests between calls: `raw` once the program has SQLite's pointer.
    @exclusivity(unchecked) var gateRest = ConnectionGate.Position.idle
    /// Whether a suspension has rolled back and no call has reported it yet.
    @exclusivity(unchecked) var wasRolledBack = false
    /// Whether the file must still be at its path when a write transaction begins.
    @exclusivity(unchecked) var checksFile = false

    init(_ handle: ConnectionHandle, usesGate: Bool) {
        gate = ConnectionGate(handle)
        self.usesGate = usesGate
    }
}
