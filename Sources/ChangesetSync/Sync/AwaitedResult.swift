extension Result where Failure == any Error {
    /// What a call that waits has returned or thrown.
    package init(of body: () async throws -> Success) async {
        do {
            self = .success(try await body())
        } catch {
            self = .failure(error)
        }
    }
}
