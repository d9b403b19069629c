/// The free blocks of a heap: a pure value that allocates runs of adjacent blocks, lowest first.
struct FreeBlocks: Equatable {
    /// Runs of free blocks, ascending; two runs are never adjacent.
    private(set) var runs: [Range<Int>]
    private let count: Int

    /// - Parameter count: The number of blocks, all free.
    init(count: Int) {
        self.count = max(count, 0)
        runs = count > 0 ? [0..<count] : []
    }

    /// Allocates `wanted` adjacent blocks.
    ///
    /// - Returns: The blocks; nil when no run is long enough.
    mutating func take(_ wanted: Int) -> Range<Int>? {
        guard wanted > 0, let index = runs.firstIndex(where: { $0.count >= wanted }) else { return nil }
        let run = runs[index]
        let taken = run.lowerBound..<run.lowerBound + wanted
        if taken.upperBound == run.upperBound {
            runs.remove(at: index)
        } else {
            runs[index] = taken.upperBound..<run.upperBound
        }
        return taken
    }

    /// Frees blocks that ``take(_:)`` returned.
    mutating func free(_ blocks: Range<Int>) {
        let index = firstRun(from: blocks.lowerBound)
        let followed = index < runs.count && runs[index].lowerBound <= blocks.upperBound
        let preceded = index > 0 && runs[index - 1].upperBound >= blocks.lowerBound
        precondition(
            !blocks.isEmpty && blocks.lowerBound >= 0 && blocks.upperBound <= count
                && (!followed || runs[index].lowerBound == blocks.upperBound)
                && (!preceded || runs[index - 1].upperBound == blocks.lowerBound),
            "blocks were freed that are free already")
        switch (preceded, followed) {
        case (true, true):
            runs[index - 1] = runs[index - 1].lowerBound..<runs[index].upperBound
            runs.remove(at: index)
        case (true, false): runs[index - 1] = runs[index - 1].lowerBound..<blocks.upperBound
        case (false, true): runs[index] = blocks.lowerBound..<runs[index].upperBound
        case (false, false): runs.insert(blocks, at: index)
        }
    }

    /// The first run that does not begin before `block`, found by binary search.
    private func firstRun(from block: Int) -> Int {
        var (low, high) = (0, runs.count)
        while low < high {
            let middle = (low + high) / 2
            if runs[middle].lowerBound < block { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
