import CallWatch
import Foundation
import Testing

/// Starts the run of all tests on ``TestThreads``, in place of the standard library's function of this name.
///
/// The main function that SwiftPM generates for a test bundle calls this symbol (`_runAsyncMain`), and the linker takes
/// the definition in the bundle before that in the library. So every suite runs on threads that it may block, without a
/// line in it. Swift Testing has no other place for something that holds for all suites: a trait would have to stand at
/// each of them, and with a main function of the package's own (`XCTMain.swift`) `swift test` leaves Swift Testing out.
/// `HarnessTests` fails where a toolchain does not come by here.
@_silgen_name("$ss13_runAsyncMainyyyyYaKcF")
public func runTests(_ tests: @Sendable @escaping () async throws -> Void) {
    TestRun.limitWidth()
    TestRun.watchCalls()
    Task.detached {
        do {
            try await withTaskExecutorPreference(TestThreads.shared, operation: tests)
            exit(0)
        } catch {
            fatalError("the test run failed: \(error)")
        }
    }
    dispatchMain()
}

/// The rules for a run of tests.
enum TestRun {
    /// Whether this is `make check`, which leaves out what starts processes or derives keys.
    private static let isCheck = environment["CIPHERSTORE_CHECK"] == "1"
    /// Matches the identifiers of the tests that may do so, in a run that does not leave them out.
    private static let exempt = environment["CIPHERSTORE_CHECK_EXCEPT"].map { pattern in
        guard let expression = try? NSRegularExpression(pattern: pattern) else {
            preconditionFailure("CIPHERSTORE_CHECK_EXCEPT is no regular expression")
        }
        return expression
    }
    private static var environment: [String: String] { ProcessInfo.processInfo.environment }

    /// One test for each core. Without a bound, Swift Testing starts all of them at once, each with files, threads and
    /// processes, and their deadlines pass. `--no-parallel` means one at a time, whatever the width.
    static func limitWidth() {
        let width = max(2, ProcessInfo.processInfo.activeProcessorCount)
        setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", String(width), 0)
    }

    /// Fails each unit test that does what `make check` leaves out, and is not named there.
    static func watchCalls() {
        if !isCheck && exempt == nil { return }
        call_watch { what in
            if !TestRun.isCheck {
                // On another thread than the test's it is not known which test calls.
                guard let test = Test.current, !TestRun.isExempt(test.id) else { return }
            }
            let call = what.map { String(cString: $0) } ?? ""
            Issue.record("\(call), which `make check` leaves out: name this test or its suite in .ci/check")
        }
    }

    private static func isExempt(_ test: Test.ID) -> Bool {
        guard let exempt else { return false }
        let name = String(describing: test)
        return exempt.firstMatch(in: name, range: NSRange(name.startIndex..., in: name)) != nil
    }
}
