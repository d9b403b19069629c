/// The needs of a writing connection around its transactions: the write turn, the length of the WAL and its checkpoints.
final class WritingState {
    // Unchecked, as those below: one thread at a time uses them, with each statement that writes.
    /// The write turn; nil for connections that do not write a store's file.
    @exclusivity(unchecked) var writeTurn: WriteTurn?
    /// Whether the write turn outlives the connection, for the one that is opened in its place.
    var keepsWriteTurn = false
    /// Whether what is written at the moment concerns no observer of other processes.
    @exclusivity(unchecked) var isQuiet = false
    /// Whether the access under way ends with its transaction.
    @exclusivity(unchecked) var endsWithCommit = false
    /// The label of the write under way; nil uses its first statement.
    @exclusivity(unchecked) var writeLabel: String?
    /// The length of the WAL, in frames, after the last commit of this connection.
    @exclusivity(unchecked) var walFrames = 0
    /// The length of the WAL, in frames, at which a checkpoint follows a commit.
    @exclusivity(unchecked) var checkpointDueFrames = Int.max
    /// Copies the WAL of a writing connection into its file.
    var checkpointer: Checkpointer?
    /// Counts the commits for the monitor of other connections' commits; nil for a database that no other connection
    /// can change.
    @exclusivity(unchecked) var link: MonitorLink?
}
