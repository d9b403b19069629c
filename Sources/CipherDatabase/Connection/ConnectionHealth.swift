import StorePlatform

/// Why a connection cannot be used, or not for everything.
final class ConnectionHealth {
    /// Why a placeholder's connection was not opened.
    var openingFailure: (any Error)?
    /// Whether another connection was opened in the place of this one.
    var wasReplaced = false
    /// Whether an fsync has failed: nothing is written after that.
    @exclusivity(unchecked) var hasFailedToSync = false
    /// Whether an error came after which SQLite may read no further page of the file with this connection.
    @exclusivity(unchecked) var mayBeUnusable = false
    /// Identifies the process that opened the connection, by the number of forks before.
    let forkCount = ForkWatch.count
}
