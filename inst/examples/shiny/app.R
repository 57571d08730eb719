# Heat spreads over a plate. The program compiles while the page already works, then runs for seconds, and the clock
# never stops: R is free while the device computes. A bar shows the progress, and a button stops the program, also in
# the middle of an execution.
#
#   shiny::runApp(system.file("examples", "shiny", package = "pjrt"))

library(shiny)
library(promises)
library(pjrt)

size <- 400L
frames <- 12L
reports <- 30L

# Computes one frame: time steps of the heat equation, and a report after every 100 of them. The edge of the plate stays
# cold.
program <- pjrt_program("
func.func @main(%heat: tensor<{DIM}xf32>, %run: tensor<i32>) -> tensor<{DIM}xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %rate = stablehlo.constant dense<0.2> : tensor<{DIM}xf32>
  %four = stablehlo.constant dense<4.0> : tensor<{DIM}xf32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %hundred = stablehlo.constant dense<100> : tensor<i32>
  %last = stablehlo.constant dense<{REPORTS}> : tensor<i32>
  %yes = stablehlo.constant dense<true> : tensor<i1>
  %out:3 = stablehlo.while(%i = %first, %go = %yes, %u = %heat) : tensor<i32>, tensor<i1>, tensor<{DIM}xf32>
  cond {
    %more = stablehlo.compare LT, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c = stablehlo.and %more, %go : tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %r:2 = stablehlo.while(%k = %first, %v = %u) : tensor<i32>, tensor<{DIM}xf32>
    cond {
      %c = stablehlo.compare LT, %k, %hundred : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %up = stablehlo.pad %v, %zero, low = [-1, 0], high = [1, 0], interior = [0, 0]
        : (tensor<{DIM}xf32>, tensor<f32>) -> tensor<{DIM}xf32>
      %down = stablehlo.pad %v, %zero, low = [1, 0], high = [-1, 0], interior = [0, 0]
        : (tensor<{DIM}xf32>, tensor<f32>) -> tensor<{DIM}xf32>
      %left = stablehlo.pad %v, %zero, low = [0, -1], high = [0, 1], interior = [0, 0]
        : (tensor<{DIM}xf32>, tensor<f32>) -> tensor<{DIM}xf32>
      %right = stablehlo.pad %v, %zero, low = [0, 1], high = [0, -1], interior = [0, 0]
        : (tensor<{DIM}xf32>, tensor<f32>) -> tensor<{DIM}xf32>
      %a = stablehlo.add %up, %down : tensor<{DIM}xf32>
      %b = stablehlo.add %left, %right : tensor<{DIM}xf32>
      %around = stablehlo.add %a, %b : tensor<{DIM}xf32>
      %here = stablehlo.multiply %v, %four : tensor<{DIM}xf32>
      %difference = stablehlo.subtract %around, %here : tensor<{DIM}xf32>
      %change = stablehlo.multiply %rate, %difference : tensor<{DIM}xf32>
      %w = stablehlo.add %v, %change : tensor<{DIM}xf32>
      %l = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %l, %w : tensor<i32>, tensor<{DIM}xf32>
    }
    %j = stablehlo.add %i, %one : tensor<i32>
    %go_on = stablehlo.custom_call @heat_report(%run, %j) {api_version = 4 : i32, has_side_effect = true}
      : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %j, %go_on, %r#1 : tensor<i32>, tensor<i1>, tensor<{DIM}xf32>
  }
  return %out#2 : tensor<{DIM}xf32>
}", types = list(DIM = c(size, size), REPORTS = as.character(reports)))

# Three hot spots.
start <- matrix(0, size, size)
start[120:180, 80:140] <- start[240:300, 240:260] <- start[60:80, 280:360] <- 1

ui <- fluidPage(
  titlePanel("Heat"),
  p("Clock: ", textOutput("clock", inline = TRUE)),
  p("Status: ", textOutput("status", inline = TRUE)),
  actionButton("start", "Start"),
  actionButton("stop", "Stop"),
  plotOutput("plot", width = "400px", height = "400px")
)

# The program calls this function: whether the run of this number goes on. All users share the program, and each of
# their runs has its own number.
runs <- list()
pjrt_register_r_call("heat_report", function(run, report) runs[[run]](report))

# The compiler works while Shiny starts. All users share the executable.
compiling <- pjrt_compile_async(program)

server <- function(input, output, session) {
  status <- reactiveVal("compiling")
  heat <- reactiveVal(start)
  clock <- reactiveVal(0L)
  stopped <- FALSE

  then(
    compiling, onFulfilled = function(executable) status("ready"), onRejected = function(e) status(conditionMessage(e))
  )

  # Executes once, and again when that is ready. The observer does not return the promise: Shiny would hold back all
  # outputs of the session until it is resolved.
  advance <- function(buffer, frame, run, progress) {
    status(sprintf("computing frame %d of %d", frame, frames))
    runs[[run]] <<- function(report) {
      progress$set((frame - 1 + report / reports) / frames)
      !stopped
    }
    finish <- function(text) {
      progress$close()
      status(text)
    }
    then(pjrt_execute(value(compiling), buffer, pjrt_scalar(run, "i32")), onFulfilled = function(buffer) {
      heat(as_array(buffer))
      if (stopped) {
        finish("stopped")
      } else if (frame < frames) {
        advance(buffer, frame + 1L, run, progress)
      } else {
        finish("done")
      }
    }, onRejected = function(e) finish(conditionMessage(e)))
    NULL
  }
  observeEvent(input$start, if (status() %in% c("ready", "done", "stopped")) {
    stopped <<- FALSE
    advance(pjrt_buffer(start, "f32"), 1L, length(runs) + 1L, Progress$new(session))
  })
  # the program sees it at its next report
  observeEvent(input$stop, stopped <<- TRUE)
  session$onSessionEnded(function() stopped <<- TRUE)

  observe({
    invalidateLater(100)
    clock(isolate(clock()) + 1L)
  })
  output$clock <- renderText(clock())
  output$status <- renderText(status())
  output$plot <- renderPlot({
    par(mar = rep(0, 4))
    # heat spreads thin: each frame has its own range of colours
    image(heat(), zlim = c(0, max(heat())), col = hcl.colors(100, "Inferno"), useRaster = TRUE, axes = FALSE)
  })
}

shinyApp(ui, server)
