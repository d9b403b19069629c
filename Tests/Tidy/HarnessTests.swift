import Testing

/// The work of Tests/Support/TestHarness for every suite.
@Suite struct HarnessTests {
    @Test("tests run on threads of their own, so that they may block them")
    func threads() {
        let hasExecutor = withUnsafeCurrentTask { $0?.unownedTaskExecutor != nil }
        #expect(hasExecutor, "the test run did not start in Tests/Support/TestHarness/TestRun.swift: see there")
    }
}
