/// How many rows a transaction of a long join takes, so that other writers wait for about ``aim``.
///
/// Rows differ in their cost by a hundred times: a run of insertions, or updates that meet other updates. So the number
/// follows the time of the last transaction.
struct SlicePace {
    /// The aim for one transaction.
    static let aim = Duration.milliseconds(40)
    /// The most rows of a transaction that looks up and compares each of them, in the tables of the program.
    static let foundRows = 5_000
    private static let fewestRows = 200
    private static let firstRows = 2_000

    private(set) var rows = firstRows

    /// - Parameters:
    ///   - taken: The rows of a transaction.
    ///   - time: How long it held the write lock.
    mutating func note(_ taken: Int, _ time: Duration) {
        // A transaction with few rows, as the last one, says little.
        guard taken >= Self.fewestRows, time > .zero else { return }
        let fitting = Double(taken) * (Self.aim / time)
        // It may become longer by its half only: the first rows may be cheap ones.
        rows = max(Self.fewestRows, Int(min(fitting, Double(taken) * 1.5)))
    }
}
