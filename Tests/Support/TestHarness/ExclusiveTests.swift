import Synchronization
import Testing

/// The settings that one test changes for its whole process, and that others in it would see.
public enum ProcessState: Hashable, Sendable {
    /// Posts of `Database.suspendNotification` reach every database that observes them.
    case suspension
}

/// Keeps suites that change the same ``ProcessState`` apart, in all test targets; all other tests run beside them.
///
///     @Suite(.serialized, .exclusive(.suspension)) struct SuspendedAccessTests {
public struct ExclusiveTests: SuiteTrait, TestTrait, TestScoping {
    private static let gates = Mutex<[ProcessState: Gate]>([:])

    let state: ProcessState

    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        await Self.enter(state)
        defer { Self.leave(state) }
        try await function()
    }

    /// Who waits is a suspended task, which takes no thread and no place among the tests that run at the same time.
    private static func enter(_ state: ProcessState) async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let isFree = gates.withLock { gates in
                guard gates[state] != nil else {
                    gates[state] = Gate()
                    return true
                }
                gates[state]?.waiting.append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
    }

    private static func leave(_ state: ProcessState) {
        let next = gates.withLock { gates -> CheckedContinuation<Void, Never>? in
            guard let waiting = gates[state]?.waiting, !waiting.isEmpty else {
                gates[state] = nil
                return nil
            }
            return gates[state]?.waiting.removeFirst()
        }
        next?.resume()
    }

    /// There while somebody is inside.
    private struct Gate {
        var waiting: [CheckedContinuation<Void, Never>] = []
    }
}

extension Trait where Self == ExclusiveTests {
    public static func exclusive(_ state: ProcessState) -> Self { ExclusiveTests(state: state) }
}
